#!/usr/bin/env bash
# Runs the tests that measure, one at a time, and shows what they have measured as a table: for each effect of a
# parameter, and for memory, what was seen beside what is expected. Measured values differ between machines, and on a
# busy one from run to run, so a value that is not as expected is no failure. The exit code is that of crashes: a run
# that ends badly, a figure without its values. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
TASUKI_BIN=$(realpath "${TASUKI_BIN:-${CARGO_TARGET_DIR:-target}/release/tasuki}")
export TASUKI_BIN

said=$(mktemp)
trap 'rm -f "$said"' EXIT
cargo build -q --workspace --lib --tests --bin tasuki-bench
code=0
for suite in lab_runs lab_machines lab_mechanisms memory connections; do
    cargo test -q --workspace --test "$suite" -- --nocapture --test-threads=1 2>&1 | tee -a "$said" || code=$?
done

printf '\n%s\n' "measured | seen | expected | verdict"
sed -n 's/^.*JUDGED: //p' "$said"
all=$(grep -c 'JUDGED: ' "$said" || true)
other=$(grep -c 'NOT AS EXPECTED' "$said" || true)
printf '\n%s values, %s not as expected\n' "$all" "$other"
exit "$code"
