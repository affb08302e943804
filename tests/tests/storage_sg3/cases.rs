//! The commands of sg3-utils in the guest, in the order in which they run: each with the exit code
//! that it must have, and words of what it must say. The words are those of sg3-utils 1.46.
//!
//! Units: `file` has 64 MiB in blocks of 512 bytes, and `second` is the same by another initiator.
//! `large` has blocks of 4,096 bytes. `removable` and `protected` are what they are called. `bare`
//! is a unit of a target that keeps no state.
//!
//! sg3-utils says by its exit code what a command ended with: 5 is ILLEGAL REQUEST, 6 UNIT
//! ATTENTION, 7 DATA PROTECT, 9 INVALID COMMAND OPERATION CODE, 10 COPY ABORTED, 14 MISCOMPARE, 22
//! LOGICAL BLOCK ADDRESS OUT OF RANGE, 24 RESERVATION CONFLICT.

/// A command, its exit code, and parts of its output.
pub(crate) type Case = (&'static str, i32, &'static [&'static str]);

/// INQUIRY, READ CAPACITY, REPORT LUNS (which QEMU answers), and what else tells of a unit.
pub(crate) const IDENTITY: &[Case] = &[
    ("sg_inq /unit/file", 0, &["version=0x06  [SPC-4]", "TPGS=1  3PC=1", "CmdQue=1", "TASUKI"]),
    ("sg_inq /unit/removable", 0, &["RMB=1"]),
    ("sg_inq -d /unit/file", 0, &["SAM-5", "iSCSI", "SPC-4", "SBC-3"]),
    ("sg_inq -p 0x80 /unit/file", 0, &["Unit serial number"]),
    (
        "sg_inq -i /unit/file",
        0,
        &["NAA 3, Locally assigned", "Target port group: 0x1", "iqn.2026-11.tasuki:disks,t,0x0001"],
    ),
    ("sg_vpd /unit/file", 0, &["[sv]", "[sn]", "[di]", "[tpc]", "[bl]", "[bdc]", "[lbpv]"]),
    ("sg_vpd -p sn /unit/file", 0, &["Unit serial number"]),
    ("sg_vpd -p di /unit/file", 0, &["vendor id: TASUKI", "Relative target port: 0x1"]),
    (
        "sg_vpd -p tpc /unit/file",
        0,
        &["Extended copy(LID1)", "block -> block [0x2]", "Maximum segment descriptor count: 64"],
    ),
    (
        "sg_vpd -p bl /unit/file",
        0,
        &[
            "Write same non-zero (WSNZ): 1",
            "Maximum compare and write length: 255 blocks",
            "Maximum unmap block descriptor count: 256",
            "Optimal unmap granularity: 8 blocks",
            "Maximum write same length: 0xffff blocks",
        ],
    ),
    ("sg_vpd -p bdc /unit/file", 0, &["Non-rotating medium"]),
    (
        "sg_vpd -p lbpv /unit/file",
        0,
        &["(LBPU): 1", "(LBPWS): 1", "(LBPWS10): 1", "(LBPRZ): 1", "(ANC_SUP): 1", "2 (thin"],
    ),
    ("sg_vpd -p lbpv /unit/protected", 0, &["(LBPU): 0"]),
    ("sg_vpd -f -p 0x86 /unit/file", 5, &[]),
    ("sg_readcap /unit/file", 0, &["Last LBA=131071 (0x1ffff)", "block length=512 bytes"]),
    ("sg_readcap -l /unit/file", 0, &["lbpme=1, lbprz=1", "Number of logical blocks=131072"]),
    ("sg_readcap -l /unit/large", 0, &["Last LBA=4095", "Logical block length=4096 bytes"]),
    ("sg_luns /unit/file", 0, &["0000000000000000"]),
    ("sg_turs -n 20 /unit/file", 0, &["Completed 20 Test Unit Ready commands with 0 errors"]),
    ("sg_requests /unit/file", 0, &["Fixed format", "No Sense"]),
    ("sg_requests -d /unit/file", 0, &["Descriptor format", "No Sense"]),
    (
        "sg_rtpg -d -e /unit/file",
        0,
        &["Implicit transition time: 0", "(active/optimized)", "target port count : 01"],
    ),
    ("sginfo -a /unit/file", 0, &["Write Cache Enabled                1"]),
    ("sginfo -d /unit/file", 0, &["0 entries (0 bytes) in grown (GLIST) table"]),
    ("sg_scan", 0, &["/dev/sg0"]),
    ("sg_map -i", 0, &["/dev/sg5  /dev/sd", "TASUKI    disk"]),
];

/// What REPORT SUPPORTED OPERATION CODES says, and whether it is true.
pub(crate) const OPERATION_CODES: &[Case] = &[
    (
        "sg_opcodes /unit/file",
        0,
        &["Compare and write", "Extended copy(LID1)", "Orwrite(16)", "Get LBA status(16)"],
    ),
    ("sg_opcodes -m /unit/file", 0, &["cdb usage: 28 1a ff ff ff ff 1f ff ff 00"]),
    ("sg_opcodes -o 0x42 /unit/file", 0, &["supported [conforming", "42 01 00 00 00 00 1f ff ff"]),
    ("sg_opcodes -o 0x9e -s 0x12 /unit/file", 0, &["Get LBA status(16)", "supported [conforming"]),
    ("sg_opcodes -o 0xc1 /unit/file", 0, &["Command is NOT supported"]),
    ("sg_opcodes -t -q /unit/file", 0, &["Abort task", "Logical unit reset"]),
    (UNLISTED, 0, &["all refused"]),
];

/// Each operation code that is not in the list ends with INVALID COMMAND OPERATION CODE.
const UNLISTED: &str = r#"
sg_opcodes -n /unit/file | sed -n 's/^ \([0-9a-f][0-9a-f]\) .*/\1/p' >/listed
[ "$(wc -l </listed)" -gt 40 ] || { echo 'the list is short'; exit 1; }
wrong=
for code in $(seq 0 255); do
    code=$(printf %02x "$code")
    grep -q "$code" /listed && continue
    sg_raw --cmdset=1 /unit/file "$code" 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 >/said 2>&1
    [ $? = 9 ] || { wrong="$wrong $code"; cat /said; }
done
[ -z "$wrong" ] && echo all refused || echo "not refused: $wrong"
"#;

/// Mode pages: shown, changed, told to another nexus, saved.
pub(crate) const MODE_PAGES: &[Case] = &[
    ("sg_modes /unit/file", 0, &["DpoFua=1", "WP=0", ">> Caching", "88 12 04 00", ">> Control"]),
    ("sg_modes -6 /unit/file", 0, &["MODE SENSE(6)", ">> Informational exceptions control"]),
    ("sg_modes -p 0x3f,0xff /unit/file", 0, &[">> Caching"]),
    ("sg_modes -p 0xa -c 1 /unit/file", 0, &["changeable"]),
    ("sg_modes -p 2 /unit/file", 5, &["page 0x2 not supported"]),
    ("sg_modes -p 8,1 /unit/file", 5, &[]),
    ("sg_modes /unit/protected", 0, &["WP=1"]),
    ("sg_wr_mode -p 0xa -c 0a,0a,04,10,0,0,0,0,ff,ff,0,0 /unit/file", 0, &[]),
    ("sg_turs -v /unit/second", 6, &["Mode parameters changed"]),
    ("sg_turs /unit/second", 0, &[]),
    ("sg_modes -p 0xa /unit/second", 0, &["0a 04 10 00"]),
    ("sg_wr_mode -p 0xa -c 0a,0a,00,10,0,0,0,0,ff,ff,0,0 /unit/file", 0, &[]),
    ("sg_turs -v /unit/second", 6, &["Mode parameters changed"]),
    // The read cache cannot be switched off.
    ("sg_wr_mode -p 8 -c 08,12,01,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 /unit/file", 5, &[]),
    // Without a place for state nothing is saved.
    (
        "sg_wr_mode -s -p 8 -c 08,12,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 /unit/bare",
        0,
        &["not save"],
    ),
    ("sg_wr_mode -s -p 8 -c 88,12,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 /unit/large", 0, &[]),
    ("sg_modes -p 8 -c 3 /unit/large", 0, &["saved", "88 12 00 00"]),
];

/// READ, WRITE, VERIFY. `/noise` has 2 MiB; the host looks at the image afterwards.
pub(crate) const TRANSFERS: &[Case] = &[
    ("sg_dd if=/noise of=/unit/file bs=512", 0, &["4096+0 records out"]),
    ("sg_dd if=/noise of=/unit/file bs=512 --verify", 0, &["4096+0 records verified"]),
    ("sg_dd if=/noise of=/unit/file bs=512 --verify seek=1", 14, &["VERIFY reports miscompare"]),
    ("sg_dd if=/noise of=/unit/file bs=512 seek=8192 cdbsz=6 bpt=64", 0, &["4096+0 records out"]),
    ("sg_dd if=/noise of=/unit/file bs=512 seek=12288 oflag=fua,dpo", 0, &["4096+0 records out"]),
    ("sg_dd if=/noise of=/unit/file bs=512 seek=16384 cdbsz=12", 0, &["4096+0 records out"]),
    ("sg_dd if=/noise of=/unit/file bs=512 seek=20480 cdbsz=16 oflag=fua", 0, &["4096+0 records"]),
    ("sg_dd if=/unit/file of=/back bs=512 count=4096 && cmp /noise /back", 0, &[]),
    (
        "sg_dd if=/unit/file of=/back bs=512 skip=8192 count=4096 cdbsz=6 bpt=64 && \
         cmp /noise /back",
        0,
        &[],
    ),
    (
        "sgp_dd if=/unit/file of=/back bs=512 skip=16384 count=4096 thr=8 && cmp /noise /back",
        0,
        &[],
    ),
    ("sgm_dd if=/unit/file of=/back bs=512 skip=20480 count=4096 && cmp /noise /back", 0, &[]),
    ("sg_read if=/unit/file bs=512 count=256 bpt=128 cdbsz=16 fua=1", 0, &["256+0 records in"]),
    ("sg_read if=/unit/file bs=512 skip=131071 count=2", 99, &["Logical block address out of"]),
    ("sg_dd if=/noise of=/unit/large bs=4096", 0, &["512+0 records out"]),
    ("sg_dd if=/unit/large of=/back bs=4096 count=512 && cmp /noise /back", 0, &[]),
    ("sg_verify -l 0 -c 128 -n 65536 -i /noise /unit/file", 0, &[]),
    ("sg_verify -l 1 -c 128 -n 65536 -i /noise /unit/file", 14, &["MISCOMPARE"]),
    ("sg_verify -S -l 0 -c 4096 /unit/file", 0, &[]),
    ("sg_verify -l 0x20000 -c 1 /unit/file", 22, &["LBA out of range"]),
    ("sg_write_verify -l 25000 -n 1 -i /block /unit/file", 0, &[]),
    ("sg_write_verify -S -l 25001 -n 1 -i /block /unit/file", 0, &[]),
    ("sg_write_x --normal -l 25002 -n 1 -i /block /unit/file", 0, &[]),
    ("sg_write_x --or -b 512 -l 25003 -n 1 -i /block /unit/file", 0, &[]),
    ("sg_compare_and_write -l 25000 -n 1 -x 1024 -i /compare /unit/file", 0, &[]),
    ("sg_compare_and_write -l 25000 -n 1 -x 1024 -i /compare /unit/file", 14, &["byte offset: 0"]),
    ("sg_seek --pre-fetch --10 -l 0 -n 8 /unit/file", 0, &[]),
    ("sg_seek --pre-fetch -l 0 -n 8 /unit/file", 0, &[]),
    ("sg_sync /unit/file", 0, &[]),
    ("sg_sync -i -l 0 -c 8 /unit/file", 0, &[]),
    // The guest's own driver of disks.
    ("dd if=/noise of=/disk/large bs=64k seek=32 conv=fsync", 0, &["32+0 records out"]),
    ("dd if=/disk/large of=/back bs=64k skip=32 count=32 && cmp /noise /back", 0, &[]),
];

/// WRITE SAME, UNMAP, GET LBA STATUS.
pub(crate) const PROVISIONING: &[Case] = &[
    ("sg_write_same --10 -l 30000 -n 64 -x 512 -i /block /unit/file", 0, &[]),
    ("sg_write_same --16 -l 30064 -n 64 -x 512 -i /block /unit/file", 0, &[]),
    ("sg_verify -E 3 -l 30000 -c 128 -n 512 -i /block /unit/file", 0, &[]),
    ("sg_verify -E 3 -l 30000 -c 129 -n 512 -i /block /unit/file", 14, &["MISCOMPARE"]),
    ("sg_write_same --16 -l 30000 -n 0 -i /block /unit/file", 5, &[]),
    ("sg_write_same --16 --unmap -l 0 -n 64 /unit/file", 0, &[]),
    ("sg_write_same --16 --ndob -l 64 -n 64 /unit/file", 0, &[]),
    ("sg_unmap --force -l 128,256 -n 64,64 /unit/file", 0, &[]),
    ("sg_unmap --force --anchor -l 512 -n 64 /unit/file", 0, &[]),
    ("sg_unmap --force -l 0x1ffff -n 2 /unit/file", 22, &["LBA out of range"]),
    (
        "sg_get_lba_status -l 0 /unit/file",
        0,
        &["LBA: 0x0000000000000000  blocks:         64  deall"],
    ),
    (
        "sg_get_lba_status -m 256 -l 64 /unit/file",
        0,
        &["LBA: 0x0000000000000080  blocks:         64  deall", "blocks:         64  mapped"],
    ),
    ("sg_get_lba_status -l 0x20000 /unit/file", 22, &[]),
    ("blkdiscard -o 0 -l 65536 /disk/large", 0, &[]),
    ("sg_get_lba_status -l 0 /unit/large", 0, &["blocks:         16  deallocated"]),
];

/// EXTENDED COPY and RECEIVE COPY RESULTS.
pub(crate) const COPIES: &[Case] = &[
    ("sg_copy_results -p /unit/file", 0, &["Maximum segment length: 268435456", "0x02", "0x0a"]),
    ("sg_xcopy if=/unit/file of=/unit/file bs=512 count=128 skip=1024 seek=40960", 0, &["128 blo"]),
    // Two commands, whose results are kept.
    (
        "sg_xcopy if=/unit/file of=/unit/file bs=512 count=128 skip=1024 seek=41984 bpt=64 \
         list_id=3 id_usage=hold",
        0,
        &["128 blocks, 2 commands"],
    ),
    ("sg_copy_results -s -l 3 /unit/file", 0, &["without errors", "Segments processed: 1"]),
    ("sg_copy_results -f -l 3 /unit/file", 0, &[]),
    ("sg_copy_results -s -l 9 /unit/file", 5, &[]),
    // Between units; the count is of the source's blocks (SPC-4 6.4.6.2).
    ("sg_xcopy if=/unit/file of=/unit/large bs=512 count=128 skip=1024 seek=2048", 0, &[]),
    (
        "sg_dd if=/unit/large of=/copied bs=4096 skip=2048 count=16 && \
         dd if=/noise of=/part bs=512 skip=1024 count=128 && cmp /part /copied",
        0,
        &[],
    ),
    (
        "sg_xcopy if=/unit/file of=/unit/file bs=512 count=128 skip=131000 seek=0",
        10,
        &["Copy aborted"],
    ),
];

/// Reservations of SPC-2, and persistent ones, of two nexuses.
pub(crate) const RESERVATIONS: &[Case] = &[
    ("sg_persist -n -i -k /unit/file", 0, &["NO registered reservation keys"]),
    ("sg_persist -n -i -c /unit/file", 0, &["(PTPL_C): 1", "(SIP_C): 0", "(PTPL_A): 0"]),
    ("sg_persist -n -o -R -K 0xa -T 1 /unit/file", 24, &["Reservation conflict"]),
    ("sg_persist -n -o -G -S 0xa /unit/file", 0, &[]),
    ("sg_persist -n -o -G -S 0xb /unit/second", 0, &[]),
    ("sg_persist -n -i -k /unit/file", 0, &["2 registered reservation keys", "0xa", "0xb"]),
    ("sg_persist -n -o -R -K 0xa -T 1 /unit/file", 0, &[]),
    ("sg_persist -n -i -r /unit/second", 0, &["Key=0xa", "type: Write Exclusive"]),
    ("sg_dd if=/block of=/unit/second bs=512 seek=50000", 99, &["Reservation Conflict"]),
    ("sg_dd if=/unit/second of=/back bs=512 count=1", 0, &["1+0 records out"]),
    ("sg_persist -n -o -P -K 0xb -S 0xa -T 3 /unit/second", 0, &[]),
    ("sg_turs -v /unit/file", 6, &["Registrations preempted"]),
    ("sg_dd if=/unit/file of=/back bs=512 count=1", 99, &[]),
    (
        "sg_persist -n -i -s /unit/second",
        0,
        &["<< Reservation holder >>", "Exclusive Access", "iqn.2026-11.example:second,i,0x"],
    ),
    ("sg_persist -n -o -L -K 0xb -T 3 /unit/second", 0, &[]),
    ("sg_persist -n -o -C -K 0xb /unit/second", 0, &[]),
    // The reservation moves to a third initiator, which nobody has seen.
    ("sg_persist -n -o -G -S 0xa /unit/file", 0, &[]),
    ("sg_persist -n -o -R -K 0xa -T 5 /unit/file", 0, &[]),
    (
        "sg_persist -n -o -M -K 0xa -S 0xd -Q 1 -X iqn.2026-11.example:third,i,0x800000000001 \
         /unit/file",
        0,
        &[],
    ),
    ("sg_persist -n -i -s /unit/file", 0, &["0xd", "example:third,i,0x800000000001"]),
    ("sg_persist -n -o -A -K 0xa -S 0xd -T 5 /unit/file", 0, &[]),
    ("sg_persist -n -i -r /unit/file", 0, &["Key=0xa"]),
    ("sg_persist -n -o -C -K 0xa /unit/file", 0, &[]),
    ("sg_persist -n -o -z -K 1 -S 2 /unit/file", 5, &[]),
    // What survives a loss of power, where the target keeps state and where it does not.
    ("sg_persist -n -o -G -S 0xc -Z /unit/large", 0, &[]),
    ("sg_persist -n -i -c /unit/large", 0, &["(PTPL_A): 1"]),
    ("sg_persist -n -i -c /unit/bare", 0, &["(PTPL_C): 0"]),
    ("sg_persist -n -o -G -S 0xc -Z /unit/bare", 5, &[]),
    ("sg_persist -n -i -k /unit/bare", 0, &["NO registered reservation keys"]),
    ("sg_raw --cmdset=1 /unit/file 16 0 0 0 0 0", 0, &[]),
    ("sg_turs /unit/second", 24, &[]),
    ("sg_raw --cmdset=1 /unit/file 17 0 0 0 0 0", 0, &[]),
    ("sg_turs /unit/second", 0, &[]),
];

/// Media that come, go and refuse.
pub(crate) const MEDIA: &[Case] = &[
    ("sg_start --stop /unit/file", 0, &[]),
    ("sg_turs /unit/file", 0, &[]),
    ("sg_start --start /unit/file", 0, &[]),
    ("sg_start --eject /unit/file", 5, &["Illegal request"]),
    ("sg_prevent -p 1 /unit/removable", 0, &[]),
    ("sg_start --eject -v /unit/removable", 5, &[]),
    ("sg_prevent -p 0 /unit/removable", 0, &[]),
    ("sg_start --eject /unit/removable", 0, &[]),
    ("sg_turs -v /unit/removable", 2, &["Medium not present"]),
    ("sg_start --load /unit/removable", 0, &[]),
    ("sg_turs -v /unit/removable; sg_turs /unit/removable", 0, &[]),
    ("sg_dd if=/unit/protected of=/back bs=512 count=8", 0, &["8+0 records out"]),
    ("sg_raw --cmdset=1 -s 512 -i /block /unit/protected 2a 0 0 0 0 0 0 0 1 0", 7, &["Write prot"]),
    ("sg_raw --cmdset=1 -s 512 -i /block /unit/protected 41 0 0 0 0 0 0 0 1 0", 7, &["Write prot"]),
    // It is not provisioned thinly, and says so above.
    ("sg_unmap --force -l 0 -n 8 /unit/protected", 9, &[]),
];
