#!/usr/bin/env bash
# A download of 256 MiB by an unmodified curl: first over Tasuki (program, inet server, NIC driver and
# supervisor as processes, through a TAP device, from the kernel's TCP), then over the kernel's own TCP and
# a veth pair. Everything happens in network namespaces made here and removed at the end.
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ] || [ ! -e /dev/net/tun ]; then
    echo "the demo makes network namespaces and a TAP device, so it needs root and /dev/net/tun:" >&2
    echo "run \`make build\`, then \`sudo scripts/demo.sh\`" >&2
    exit 1
fi

tasuki=$(realpath "${TASUKI_BIN:-${CARGO_TARGET_DIR:-target}/release/tasuki}")
python=$(python3 -c 'import sys; print(sys.executable)')
work=$(mktemp -d)
near=tasuki-demo-$$-a
far=tasuki-demo-$$-b
download=

cleanup() {
    trap - EXIT INT TERM
    for namespace in $near $far; do
        pids=$(ip netns pids "$namespace" 2>/dev/null || true)
        # shellcheck disable=SC2086 # a list of process ids
        [ -z "$pids" ] || kill $pids 2>/dev/null || true
    done
    [ -z "$download" ] || wait "$download" 2>/dev/null || true
    for namespace in $near $far; do
        ip netns del "$namespace" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

near() { ip netns exec "$near" "$@"; }
far() { ip netns exec "$far" "$@"; }

# serve NAMESPACE-FUNCTION: an HTTP server for the file on port 8000; returns when it listens.
serve() {
    "$1" "$python" -u -m http.server 8000 --directory "$work" >"$work/server.$1" 2>&1 &
    until grep -q 'Serving HTTP' "$work/server.$1"; do
        kill -0 $! || { cat "$work/server.$1" >&2; exit 1; }
        sleep 0.02
    done
}

# What curl says of a transfer: bytes per second and seconds.
report='%{speed_download} %{time_total}\n'

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
head -c 268435456 /dev/urandom >"$work/file"
digest=$(sha256sum <"$work/file" | cut -d ' ' -f 1)

ip netns add "$near"
near ip link set lo up
serve near

echo
echo "tasuki run --mode split -- curl http://10.219.0.1:8000/file"
# Not through a function, so that $! is tasuki itself and names its private instance.
ip netns exec "$near" "$tasuki" run --mode split --address 10.219.0.2/24 -- \
    curl -sS -o "$work/one" -w "$report" http://10.219.0.1:8000/file >"$work/tasuki.speed" &
download=$!
instance=run-$download
# While the transfer goes on: what runs, and what has been counted so far.
while kill -0 "$download" 2>/dev/null; do
    if near "$tasuki" ps "$instance" >"$work/ps.new" 2>/dev/null &&
        grep -q curl "$work/ps.new" &&
        near "$tasuki" ps --json "$instance" >"$work/counters.new" 2>/dev/null; then
        mv "$work/ps.new" "$work/ps"
        mv "$work/counters.new" "$work/counters"
    fi
    sleep 0.02
done
wait "$download"
download=
check one Tasuki
[ -e "$work/counters" ] || { echo "the transfer was over before \`tasuki ps\` saw it" >&2; exit 1; }
echo
echo "the processes that took part (tasuki ps, during the transfer):"
sed 's/^/  /' "$work/ps"
echo
echo "copies of each received byte in user space:"
"$python" - "$work/counters" <<'PYTHON'
import json
import sys

counters = dict(json.load(open(sys.argv[1]))[0]["counters"])
payload = counters["payload.rx-bytes"]
server = counters["copy.rx-bytes"] / payload
print(f"  {server:.2f}  by the inet server, into the program's region")
print(f"  1.00  by the program's recv, into its own buffer")
print(f"  ({payload / 1048576:.0f} MiB counted so far; docs/every-byte-copied.md follows every byte)")
PYTHON

echo
echo "the same over the kernel's TCP and a veth pair"
ip netns add "$far"
ip link add demo0 netns "$near" type veth peer name demo0 netns "$far"
near ip address add 10.218.0.1/24 dev demo0
far ip address add 10.218.0.2/24 dev demo0
near ip link set demo0 up
far ip link set demo0 up
far curl -sS -o "$work/two" -w "$report" http://10.218.0.1:8000/file >"$work/kernel.speed"
check two "the kernel"

echo
echo "throughput of one download of 256 MiB:"
show "Tasuki, split, TAP" "$work/tasuki.speed"
show "kernel, veth" "$work/kernel.speed"
