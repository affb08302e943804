#!/usr/bin/env bash
# Runs every check that must pass before a change is accepted. All stages run, also after one has failed.
# The last line is the sum of all tests: "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 1

log=$(mktemp)
spent=$(mktemp)
modelled=$(mktemp)
modeller=
trap '[ -z "$modeller" ] || kill "$modeller" 2>/dev/null; rm -f "$log" "$spent" "$modelled"' EXIT
failed_stages=

# stage NAME COMMAND...: runs the command, shows its output, tells its time, and remembers whether it failed.
stage() {
    local name=$1 code=0
    local TIMEFORMAT="%0R s, %0U s user, %0S s system"
    shift
    printf '\n==> %s\n' "$name"
    { time { "$@" 2>&1 | tee -a "$log" || code=$?; }; } 2>"$spent"
    if [ "$code" = 0 ]; then
        printf '==> %s: done in %s\n' "$name" "$(cat "$spent")"
    else
        failed_stages="$failed_stages, $name"
        printf '==> %s: FAILED after %s\n' "$name" "$(cat "$spent")"
    fi
}
set -o pipefail

show_models() {
    cat "$modelled"
    return "$models"
}

stage "tools" scripts/deps.sh
# What a later build could reuse costs time in the first one, which finds nothing.
[ -d "${CARGO_TARGET_DIR:-target}/debug/incremental" ] || export CARGO_INCREMENTAL=0
# The models run beside what does not keep all processors at work. Their target directory is their own.
scripts/loom.sh >"$modelled" 2>&1 &
modeller=$!
stage "format" cargo fmt --all --check
stage "lints" cargo clippy --workspace --all-targets -- -D warnings
stage "documentation" scripts/doc.sh
# All at once: cargo builds a dependency again for each selection of packages that wants other features of it.
stage "build" cargo build --workspace --lib --tests --bin tasuki --bin tasuki-bench
stage "units" cargo test --workspace --exclude tasuki-tests --no-fail-fast
wait "$modeller"
models=$?
modeller=
stage "models" show_models
stage "fuzzing" scripts/fuzz.sh
# `make test-programs` has the release build as it is installed.
TASUKI_BIN=${TASUKI_BIN:-${CARGO_TARGET_DIR:-target}/debug/tasuki} \
    stage "real processes" scripts/real-processes.sh

# The sums of all "test result:" lines; a test that printed SKIP has not passed.
skips=$(grep -c '^SKIP: ' "$log")
printf '\n'
[ "$skips" = 0 ] || grep '^SKIP: ' "$log"
# What failed tests said, again, where the end of a long output has it.
awk '/^---- .* stdout ----$/ { left = 20 } left > 0 { print substr($0, 1, 1000); left-- }' "$log"
awk -v skips="$skips" '
    /^test result: / {
        for (i = 2; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
            if ($(i + 1) == "ignored;") ignored += $i
        }
    }
    END { printf "%d passed, %d failed, %d skipped\n", passed - skips, failed, ignored + skips }
' "$log"
if [ -n "$failed_stages" ]; then
    echo "failed: ${failed_stages#, }"
    exit 1
fi
