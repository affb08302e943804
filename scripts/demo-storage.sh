#!/usr/bin/env bash
# A disk over iSCSI between two instances: a target at one end of a wire, an initiator at the other. ext4 is
# made on the disk and mounted through `tasuki disk mount`, 256 MiB are written and read back with SHA-256,
# over each transport that this build has. Where the machine has no FUSE or no loop devices, or this build no
# `tasuki disk mount`, `tasuki disk copy` moves the same bytes instead. The demo makes a network namespace and
# removes everything at the end, also on Ctrl-C.
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ]; then
    echo "the demo makes a network namespace and mounts a disk, so it needs root:" >&2
    echo "run \`make build\`, then \`sudo scripts/demo-storage.sh\`" >&2
    exit 1
fi

tasuki=$(realpath "${TASUKI_BIN:-${CARGO_TARGET_DIR:-target}/release/tasuki}")
size=268435456
need=$((4 * size))
# In memory if the files fit there, so that no disk is measured.
work=$(mktemp -d -p "$(df -B1 --output=avail /dev/shm 2>/dev/null |
    awk -v need="$need" 'NR == 2 && $1 > need { print "/dev/shm" }')")
net=demodisk-$$
space=tasuki-$net
loop=
mount=
# A key of its own, which both ends have: they need no introduction.
export TASUKI_KEYS="$work/keys" TASUKI_STATE="$work/state"

# Not `ip netns exec`, which hides mounts.
inside() { nsenter --net="/run/netns/$space" "$@"; }

unmount() {
    ! mountpoint -q "$work/ext4" || umount "$work/ext4" || true
    [ -z "$loop" ] || losetup --detach "$loop" 2>/dev/null || true
    loop=
    if [ -n "$mount" ]; then
        umount "$work/fuse" 2>/dev/null || true
        kill "$mount" 2>/dev/null || true
        wait "$mount" 2>/dev/null || true
        mount=
    fi
}

down() {
    inside "$tasuki" target down "$net" >/dev/null 2>&1 || true
    for end in i t; do inside "$tasuki" down "$net-$end" >/dev/null 2>&1 || true; done
}

cleanup() {
    trap - EXIT
    trap '' INT TERM
    unmount
    if ip netns pids "$space" >/dev/null 2>&1; then
        down
        # shellcheck disable=SC2046 # a list of process ids
        [ -z "$(ip netns pids "$space")" ] || kill $(ip netns pids "$space") 2>/dev/null || true
        ip netns del "$space" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { if [ -t 2 ]; then printf '\r\033[K%s' "$1" >&2; [ -n "$1" ] || printf '\r' >&2; fi; }

# Seconds of processor time, user and system, of the processes of one end.
pids() {
    inside "$tasuki" ps --json "$net-$1" | python3 -c '
import json, sys
print(*{process["pid"] for process in json.load(sys.stdin)[0]["processes"]})'
    [ "$1" = i ] || inside "$tasuki" target ls --json "$net" | python3 -c '
import json, sys
print(json.load(sys.stdin)[0]["pid"])'
    [ "$1" = t ] || [ -z "$mount" ] || echo "$mount"
}
ticks() {
    # shellcheck disable=SC2046 # a list of process ids
    for pid in $(pids "$1"); do cat "/proc/$pid/stat" 2>/dev/null || true; done |
        sed 's/.*) //' | awk '{ u += $12; s += $13 } END { print u + 0, s + 0 }'
}
now() { date +%s.%N; }

# The figures of a step: begin, then end NAME BYTES.
begin() { before_t=$(ticks t); before_i=$(ticks i); children=$(used); began=$(now); }
# Processor time of the ended children of this shell: the initiator, where it is a command.
used() { sed 's/.*) //' "/proc/$$/stat" | awk '{ print $14, $15 }'; }
finish() {
    ended=$(now)
    since=$(used)
    echo "$1 $began $ended $before_t $(ticks t) $before_i $(ticks i) $children $since" |
        awk -v size="$size" -v count="$2" -v hz="$(getconf CLK_TCK)" '{
            copies = count == "yes"
            own = $10 - $8 + copies * ($14 - $12); kernel = $11 - $9 + copies * ($15 - $13)
            printf "  %-8s %-6s %8.0f MiB/s   target %5.2f + %5.2f s   initiator %5.2f + %5.2f s\n", \
                name, $1, size / 1048576 / ($3 - $2), ($6 - $4) / hz, ($7 - $5) / hz, own / hz, kernel / hz
        }' name="$transport" >>"$work/figures"
}

check() {
    if ! echo "$digest  $1" | sha256sum --check --quiet -; then
        echo "what was read back over $transport is not what was written" >&2
        exit 1
    fi
}

# ext4 on a loop device on the FUSE file of the unit. Fails before anything is measured if that cannot be.
by_mount() {
    why="this build has no tasuki disk mount"
    "$tasuki" disk mount --help >/dev/null 2>&1 || return 1
    why="/dev/fuse is missing"
    [ -e /dev/fuse ] || return 1
    mkdir -p "$work/fuse" "$work/ext4"
    inside "$tasuki" disk mount "$url" "$work/fuse" --foreground --net "$net-i" >"$work/said" 2>&1 &
    mount=$!
    for _ in $(seq 100); do
        [ ! -e "$work/fuse/disk" ] || break
        sleep 0.05
    done
    [ -e "$work/fuse/disk" ] || { unmount; why=$(tail -n 1 "$work/said"); return 1; }
    prepare >"$work/said" 2>&1 || { unmount; why=$(tail -n 1 "$work/said"); return 1; }
    way="ext4 on tasuki disk mount"
    say "$transport: writing to ext4"
    begin
    dd if="$work/file" of="$work/ext4/file" bs=1M conv=fsync status=none
    finish write no
    umount "$work/ext4"
    mount -t ext4 "$loop" "$work/ext4"
    say "$transport: reading from ext4"
    begin
    dd if="$work/ext4/file" of="$work/back" bs=1M iflag=direct status=none
    finish read no
    check "$work/back"
    umount "$work/ext4"
    e2fsck -f -n "$loop" >/dev/null 2>&1 || { echo "e2fsck finds faults over $transport" >&2; exit 1; }
    unmount
}

prepare() {
    mkfs.ext4 -q -F "$work/fuse/disk" &&
        loop=$(losetup --find --show --direct-io=on "$work/fuse/disk") && mount -t ext4 "$loop" "$work/ext4"
}

by_copy() {
    way="tasuki disk copy"
    say "$transport: writing"
    begin
    inside "$tasuki" disk copy "$work/file" "$url" --net "$net-i"
    finish write yes
    say "$transport: reading"
    begin
    inside "$tasuki" disk copy "$url" "$work/whole" --net "$net-i"
    finish read yes
    head -c "$size" "$work/whole" >"$work/back"
    check "$work/back"
}

# Has both instances protect all packets between them by ESP, with AES-256-GCM and a new key for each direction.
protect() {
    t=10.219.0.1 i=10.219.0.2
    for way in t i; do
        (umask 077 && echo "0x$(head -c 36 /dev/urandom | od -An -v -tx1 | tr -d ' \n')" >"$work/$way.key")
    done
    for end in t i; do
        for way in "t $t $i 0x1001" "i $i $t 0x1002"; do
            # shellcheck disable=SC2086 # a list of words
            set -- $way
            ends="src $2 dst $3"
            dir=in
            [ "$1" != "$end" ] || dir=out
            # shellcheck disable=SC2086 # a list of words
            inside "$tasuki" xfrm --net "$net-$end" state add $ends proto esp spi "$4" reqid 1 \
                replay-window 128 flag esn aead 'rfc4106(gcm(aes))' "@$work/$1.key" 128 &&
                inside "$tasuki" xfrm --net "$net-$end" policy add $ends dir "$dir" tmpl proto esp reqid 1 ||
                return 1
        done
    done
}

# Name, scheme of the URL, options of `tasuki target up`. One line is one transport.
transports='plain iscsi --plain
tls iscsi+tls --tls
sealed iscsi+sealed
esp iscsi --plain'

echo "making a file of 256 MiB"
head -c "$size" /dev/urandom >"$work/file"
digest=$(sha256sum <"$work/file" | cut -d ' ' -f 1)
ip netns add "$space"
inside ip link set lo up
echo "tasuki up: two instances, one wire; tasuki target up: a disk in memory at one end"
for end in t:10.219.0.1 i:10.219.0.2; do
    inside "$tasuki" up --nic "wire:$work/wire" --address "${end#*:}/24" --ipv6 off "$net-${end%%:*}"
done

missing=
while read -r transport scheme options <&3; do
    # It is the last: it does not end again.
    [ "$transport" != esp ] || protect
    # shellcheck disable=SC2086 # a list of words
    if ! inside "$tasuki" target up "$net" $options --lun memory:320M --net "$net-t" 2>"$work/said"; then
        missing="$missing  $transport: not in this build: $(tail -n 1 "$work/said")
"
        continue
    fi
    url="$scheme://10.219.0.1/iqn.2026-11.tasuki:$net/0"
    by_mount || { echo "$transport without a mount: $why"; by_copy; }
    rm -f "$work/back" "$work/whole"
    inside "$tasuki" target down "$net"
    say ""
    echo "SHA-256 of what was read back over $transport ($way): correct"
done 3<<EOT
$transports
EOT

echo
echo "256 MiB written and read back; processor time of each end, user + system:"
cat "$work/figures"
[ -z "$missing" ] || printf '%s' "$missing"
echo "docs/guide/storage.md says how to use it, docs/reference/performance-storage.md how fast it is"
