//! Commands that the target does not have, and commands that are wrong. They are refused with sense
//! data that says why; only a wrong amount of data can be an overflow or underflow instead. None of
//! them changes what is on the unit.

use crate::cases::Case;

/// Programs of sg3-utils whose commands are not there.
pub(crate) const NOT_THERE: &[Case] = &[
    ("sg_format -F -e -Q /unit/file", 5, &[]),
    ("sg_raw --cmdset=1 /unit/file 04 0 0 0 0 0", 9, &["Invalid command operation code"]),
    ("sg_sanitize -B -Q /unit/file", 9, &[]),
    ("sg_reassign -a 1 /unit/file", 9, &[]),
    ("sg_read_long /unit/file", 9, &[]),
    ("sg_write_long -l 1 /unit/file", 9, &[]),
    ("sg_rbuf /unit/file", 9, &[]),
    ("sg_read_buffer /unit/file", 9, &[]),
    ("sg_write_buffer /unit/file", 9, &[]),
    ("sg_senddiag -t /unit/file", 9, &[]),
    ("sg_logs -a /unit/file", 9, &[]),
    ("sg_ident /unit/file", 5, &[]),
    ("sg_timestamp /unit/file", 5, &[]),
    ("sg_stpg /unit/file", 0, &["Set Target Port Groups: Illegal request, Invalid opcode"]),
    ("sg_rep_zones /unit/file", 9, &[]),
    ("sg_referrals /unit/file", 5, &[]),
    ("sg_read_attr /unit/file", 9, &[]),
    ("sg_get_elem_status /unit/file", 5, &[]),
    ("sg_stream_ctl -g /unit/file", 5, &[]),
    ("sg_rmsn /unit/file", 9, &[]),
    ("sg_safte /unit/file", 9, &[]),
    ("sg_ses /unit/file", 9, &[]),
    ("sg_sat_identify /unit/file", 9, &[]),
    ("sg_read_block_limits /unit/file", 9, &[]),
    ("sg_bg_ctl /unit/file", 5, &[]),
    ("sg_rep_pip /unit/file", 5, &[]),
    ("sg_seek -l 1 /unit/file", 9, &[]),
    ("sg_get_config /unit/file", 9, &[]),
    ("sg_emc_trespass /unit/file", 5, &[]),
    ("sg_write_same --32 -l 0 -n 1 -i /block /unit/file", 9, &[]),
    ("sg_write_x --atomic=0 -b 512 -l 0 -n 1 -i /block /unit/file", 9, &[]),
    ("sg_write_x --scattered=1 -b 512 -l 0 -n 1 -i /block /unit/file", 9, &[]),
    ("sg_write_x --stream=1 -b 512 -l 0 -n 1 -i /block /unit/file", 9, &[]),
    // QEMU resets its own device, and says so.
    ("sg_reset -d /unit/file", 0, &[]),
    ("sg_turs /unit/file; sg_turs /unit/file", 0, &[]),
];

/// Fields, lists and lengths that are wrong. `/noise` stands for lists.
pub(crate) const WRONG: &[Case] = &[
    // RDPROTECT, NACA, reserved bits.
    ("sg_raw --cmdset=1 -r 512 /unit/file 28 80 0 0 0 0 0 0 1 0", 5, &["byte 1 bit 7"]),
    ("sg_raw --cmdset=1 -r 512 /unit/file 28 0 0 0 0 0 0 0 1 4", 5, &["byte 9 bit 2"]),
    ("sg_raw --cmdset=1 -r 36 /unit/file 12 0 0 0 24 80", 5, &["byte 5 bit 7"]),
    ("sg_raw --cmdset=1 -r 36 /unit/file 12 2 0 0 24 0", 5, &["byte 1 bit 1"]),
    ("sg_raw --cmdset=1 -r 36 /unit/file 12 0 83 0 24 0", 5, &["byte 2"]),
    // Service actions.
    ("sg_raw --cmdset=1 -r 512 /unit/file a3 1f 0 0 0 0 0 0 2 0 0 0", 5, &["byte 1 bit 4"]),
    ("sg_raw --cmdset=1 -r 512 /unit/file 9e 1f 0 0 0 0 0 0 0 0 0 0 2 0 0 0", 5, &["byte 1 bit 4"]),
    ("sg_raw --cmdset=1 -r 512 /unit/file 5e 1f 0 0 0 0 0 2 0 0", 5, &["byte 1 bit 4"]),
    ("sg_raw --cmdset=1 /unit/file 7f 0 0 0 0 0 0 18 0 b", 9, &[]),
    // Addresses and counts.
    (
        "sg_raw --cmdset=1 -r 512 /unit/file 88 0 ff ff ff ff ff ff ff ff 0 0 0 1 0 0",
        22,
        &["Logical block address out of range"],
    ),
    ("sg_raw --cmdset=1 -r 512 /unit/file 88 0 ff ff ff ff ff ff ff ff 0 0 0 0 0 0", 22, &[]),
    (
        "sg_raw --cmdset=1 -r 512 /unit/file 88 0 0 0 0 0 0 0 0 0 ff ff ff ff 0 0",
        22,
        &["Info fld=0x20000"],
    ),
    ("sg_raw --cmdset=1 -s 512 -i /noise /unit/file 2a 0 0 2 0 0 0 0 1 0", 22, &[]),
    // Lists that are too short, and lists of noise.
    ("sg_raw --cmdset=1 -s 24 -i /noise /unit/file 42 0 0 0 0 0 0 0 18 0", 5, &["list length"]),
    ("sg_raw --cmdset=1 -s 4 -i /noise /unit/file 42 0 0 0 0 0 0 0 4 0", 5, &["list length"]),
    ("sg_raw --cmdset=1 -s 24 -i /noise /unit/file 55 10 0 0 0 0 0 0 18 0", 5, &["parameter list"]),
    ("sg_raw --cmdset=1 -s 24 -i /noise /unit/file 5f 0 0 0 0 0 0 0 18 0", 5, &["parameter list"]),
    ("sg_raw --cmdset=1 -s 16 -i /noise /unit/file 5f 0 0 0 0 0 0 0 10 0", 5, &["list length"]),
    ("sg_raw --cmdset=1 -s 200 -i /noise /unit/file 83 0 0 0 0 0 0 0 0 0 0 0 0 c8 0 0", 5, &[]),
    // More data than the command wants, less, none, and in the other direction.
    (
        "sg_raw --cmdset=1 -s 100 -i /noise /unit/file 2a 0 0 0 ea 60 0 0 1 0",
        5,
        &["Invalid field in command information unit"],
    ),
    ("sg_raw --cmdset=1 /unit/file 2a 0 0 0 ea 60 0 0 1 0", 0, &[]),
    ("sg_raw --cmdset=1 -r 512 /unit/file 2a 0 0 0 ea 60 0 0 1 0", 0, &[]),
    ("sg_raw --cmdset=1 -s 512 -i /noise /unit/file 28 0 0 0 ea 60 0 0 1 0", 0, &[]),
    ("sg_raw --cmdset=1 -r 512 /unit/file 28 0 0 0 ea 60 0 0 2 0", 0, &["Received 512 bytes"]),
    ("sg_raw --cmdset=1 -r 1024 /unit/file 28 0 0 0 ea 60 0 0 1 0", 0, &[]),
    ("sg_raw --cmdset=1 /unit/file 28 0 0 0 ea 60 0 0 1 0", 0, &[]),
    // The first has the right amount, and writes.
    ("sg_raw --cmdset=1 -s 512 -i /noise /unit/file 93 0 0 0 0 0 0 0 ea 68 0 0 0 1 0 0", 0, &[]),
    ("sg_raw --cmdset=1 -s 256 -i /noise /unit/file 93 0 0 0 0 0 0 0 ea 68 0 0 0 1 0 0", 5, &[]),
    ("sg_raw --cmdset=1 -s 512 -i /noise /unit/file 89 0 0 0 0 0 0 0 ea 68 0 0 0 1 0 0", 5, &[]),
    // The unit is there still, and what it had.
    ("sg_turs /unit/file", 0, &[]),
    ("sg_dd if=/unit/file of=/back bs=512 skip=12288 count=4096 && cmp /noise /back", 0, &[]),
];
