#!/usr/bin/env bash
# The tests with real processes, of TASUKI_BIN or else of the release build. All of them run in mode split, unless
# a test names another mode, and over TAP. Then the tests of programs run in the other modes and over the other devices.
# Tests wait more than they work, so JOBS test programs run at once (default: twice as many as processors). The
# output of each is printed in one piece.
#
# real-processes.sh programs: only the tests of programs that people run, in modes split and fused, with those that
# `make test` leaves out because they are long.
set -euo pipefail
cd "$(dirname "$0")/.."
TASUKI_BIN=$(realpath "${TASUKI_BIN:-${CARGO_TARGET_DIR:-target}/release/tasuki}")
export TASUKI_BIN CARGO_TERM_COLOR=never

# Tests that are not about one mode or one device. A test that lacks something there prints SKIP.
everywhere="transfer parallel messages options urgent errors faults fastopen ipv6 multicast"
in_fused="$everywhere crowd native offload relay processes_share_sockets esp"
in_library="$everywhere offload"
over_packet="$everywhere crowd native hostile malformed death ping"
over_xdp="$over_packet"
over_wire="transfer parallel urgent errors faults ipv6 crowd native hostile death"
# Families of programs that people run.
programs_people_run="databases web_servers languages inetd file_transfer network_tools curl shells debuggers storage
    storage_access storage_bench storage_mount storage_nbdkit storage_secure storage_sg3 storage_tgt programs_watch"
# Leaves out the versions of a test for the other modes.
in_split="--skip fused_mode --skip library_mode"
# These take longest, and begin first.
long="socket_table lab_runs storage languages devices native storage_mount storage_secure esp transfer
    offload names idle dhcp death faults crowd hostile passt pcap"

built=$(mktemp)
trap 'rm -f "$built"' EXIT
# The whole workspace, since cargo builds dependencies again for each selection of packages that wants other features of
# them. One of the tests runs tasuki-bench.
cargo build -q --workspace --lib --tests --bin tasuki-bench
cargo test -q --workspace --no-run --message-format=json | python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    target = message.get("target", {})
    if target.get("kind") == ["test"] and "/tests#" in message["package_id"]:
        print(target["name"], message["executable"])
' >"$built"

# programs VARIABLE NAMES [OPTIONS]: a line for each of them: variable, name, executable, options.
programs() {
    for name in $2; do
        path=$(awk -v name="$name" '$1 == name { print $2 }' "$built")
        [ -n "$path" ] || { echo "there is no test program $name" >&2; return 1; }
        # No blank at the end: to xargs the line would go on.
        echo "$1 $name $(realpath "$path")${3:+ $3}"
    done
}

# run VARIABLE NAME EXECUTABLE [OPTIONS]: runs one of them, then prints its output, below its time: on the clock, and of
# the processors for what it has waited for.
run() {
    local variable=$1 title="$2, $1" said code=0
    local TIMEFORMAT="  -> $title: %0R s, %0U s user, %0S s system"
    said=$(mktemp)
    { time { (cd tests && env "$variable" "${@:3}" --test-threads=2) >"$said" 2>&1 || code=$?; }; } 2>"$said.time"
    sed "s/^SKIP: /&$title: /" "$said" | cat "$said.time" - | flock "$built" cat
    rm -f "$said" "$said.time"
    return "$code"
}
export -f run
export built

# Runs the lines of `programs`, several at a time.
together() {
    xargs -P "${JOBS:-$((2 * $(nproc)))}" -L 1 bash -c 'run "$@"' run
}

if [ "${1:-}" = programs ]; then
    {
        programs TASUKI_TEST_MODE=split "$programs_people_run" --include-ignored
        programs TASUKI_TEST_MODE=fused "$programs_people_run" --include-ignored
    } | together
    exit
fi

others=$(awk -v named=" $(echo $long) " 'index(named, " " $1 " ") == 0 { print $1 }' "$built")
code=0
{
    programs TASUKI_TEST_MODE=split "$long $others" &&
        programs TASUKI_TEST_MODE=fused "$in_fused" "--skip _mode" &&
        programs TASUKI_TEST_MODE=library "$in_library" "--skip _mode" &&
        programs TASUKI_TEST_NIC=packet "$over_packet" "$in_split" &&
        programs TASUKI_TEST_NIC=xdp "$over_xdp" "$in_split" &&
        programs TASUKI_TEST_NIC=wire "$over_wire" "$in_split"
} | together || code=$?
exit "$code"
