#!/usr/bin/env bash
# A download of 256 MiB by an unmodified curl, first over Tasuki, then over the kernel's own TCP and a veth
# pair. Over Tasuki, program, inet server, NIC driver and supervisor are processes, and the file comes from
# the kernel's TCP through a TAP device. The demo makes network namespaces and removes them at the end, also
# on Ctrl-C.
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ] || [ ! -e /dev/net/tun ]; then
    echo "the demo makes network namespaces and a TAP device, so it needs root and /dev/net/tun:" >&2
    echo "run \`make build\`, then \`sudo scripts/demo.sh\`" >&2
    exit 1
fi

tasuki=$(realpath "${TASUKI_BIN:-${CARGO_TARGET_DIR:-target}/release/tasuki}")
python=$(python3 -c 'import sys; print(sys.executable)')
size=268435456
# In memory if two such files fit there, so that no disk is measured.
work=$(mktemp -d -p "$(df -B1 --output=avail /dev/shm 2>/dev/null |
    awk -v need=$((3 * size)) 'NR == 2 && $1 > need { print "/dev/shm" }')")
net=demo-$$
near=tasuki-$net-a
far=tasuki-$net-b

pids() { ip netns pids "$near" 2>/dev/null || true; }

cleanup() {
    trap - EXIT
    trap '' INT TERM
    "$tasuki" down "$net" >/dev/null 2>&1 || true
    # shellcheck disable=SC2046 # a list of process ids
    [ -z "$(pids)" ] || kill $(pids) 2>/dev/null || true
    for _ in $(seq 100); do
        [ -n "$(pids)" ] || break
        sleep 0.05
    done
    for namespace in "$near" "$far"; do
        ip netns del "$namespace" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

near() { ip netns exec "$near" "$@"; }
far() { ip netns exec "$far" "$@"; }

# The figures that curl prints of a transfer: bytes per second and seconds. Its bar is for people only.
report='%{speed_download} %{time_total}\n'
if [ -t 2 ]; then bar=--progress-bar; else bar=--silent; fi

show() {
    awk -v name="$1" '{
        printf "  %-22s %7.2f Gbit/s   %6.1f MiB/s   %5.2f s\n", name, $1 * 8 / 1e9, $1 / 1048576, $2
    }' "$2"
}

check() {
    if ! echo "$digest  $work/$1" | sha256sum --check --quiet -; then
        echo "the download over $2 is not the file" >&2
        exit 1
    fi
    rm -f "$work/$1"
    echo "SHA-256 of the download over $2: correct"
}

echo "making a file of 256 MiB"
head -c "$size" /dev/urandom >"$work/file"
digest=$(sha256sum <"$work/file" | cut -d ' ' -f 1)

ip netns add "$near"
near ip link set lo up
near "$python" scripts/serve.py "$work/file" 8000 >"$work/server" 2>&1 &
server=$!
until grep -q ready "$work/server"; do
    kill -0 "$server" 2>/dev/null || { cat "$work/server" >&2; exit 1; }
    sleep 0.02
done

echo
echo "tasuki up --mode split; tasuki run --net $net -- curl http://10.219.0.1:8000/file"
near "$tasuki" up --mode split --address 10.219.0.2/24 "$net"
near "$tasuki" run --net "$net" -- \
    curl "$bar" --show-error -o "$work/one" -w "$report" http://10.219.0.1:8000/file \
    >"$work/tasuki.speed" &
download=$!
# Waits until curl is a client. If curl was too quick for that, the list is without it.
while near "$tasuki" ps "$net" >"$work/ps" && ! grep -q curl "$work/ps"; do
    kill -0 "$download" 2>/dev/null || break
    sleep 0.01
done
wait "$download"
near "$tasuki" ps --json "$net" >"$work/ps.json"
near "$tasuki" down "$net"
check one Tasuki
echo
if grep -q curl "$work/ps"; then
    echo "the processes that took part (tasuki ps, during the transfer):"
else
    echo "the processes that took part (tasuki ps, after the transfer, so without curl):"
fi
sed 's/^\(.\)/  \1/' "$work/ps"
echo
"$python" - "$work/ps.json" <<'PYTHON'
import json
import sys

counters = json.load(open(sys.argv[1]))[0]["counters"]
ways = {
    "received": [
        ("payload.rx-bytes", None),
        ("copy.rx-bytes", "inet server, from frame to the program's region"),
        ("copy.program-rx-bytes", "program's recv, into its own buffer"),
    ],
    "sent": [
        ("payload.tx-bytes", None),
        ("copy.program-tx-bytes", "program's send, into its region"),
    ],
}
for way, ((payload, _), *copies) in ways.items():
    total = counters[payload]
    print(f"copies of each {way} byte in user space ({total:,} bytes):")
    for name, who in copies:
        print(f"  {counters[name] / total if total else 0:.2f}  {name:22} {who}")
PYTHON
echo "docs/design/every-byte-copied.md follows every byte"

echo
echo "the same over the kernel's TCP and a veth pair"
ip netns add "$far"
ip link add demo0 netns "$near" type veth peer name demo0 netns "$far"
near ip address add 10.218.0.1/24 dev demo0
far ip address add 10.218.0.2/24 dev demo0
near ip link set demo0 up
far ip link set demo0 up
far curl "$bar" --show-error -o "$work/two" -w "$report" http://10.218.0.1:8000/file \
    >"$work/kernel.speed"
check two "the kernel"

echo
echo "throughput of one download of 256 MiB:"
show "Tasuki, split, TAP" "$work/tasuki.speed"
show "kernel, veth" "$work/kernel.speed"
