#!/usr/bin/env bash
# fuzz.sh [SECONDS] [TARGET...]: runs the fuzz targets (default: all) for SECONDS (default 60) each, two at
# a time. They start from the committed corpora, which stay as they are. New inputs go to
# target/fuzz/corpus/, and the next run starts from these too. An input that fails is kept in
# target/fuzz/artifacts/, and the line that runs it alone is printed. A protocol of text has its words in
# fuzz/dictionaries/, named after what its targets' names begin with.
#
# The script needs cargo-fuzz and a nightly compiler. Without them it prints so and does nothing: the unit
# tests replay the corpora anyway.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# = 0 ] || shift
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzzing: NOT done (no cargo-fuzz or no nightly compiler); the units have replayed the corpora"
    exit 0
fi

out=$(realpath -m "${CARGO_TARGET_DIR:-target}/fuzz")
names=$*
if [ -z "$names" ]; then
    for file in fuzz/fuzz_targets/*.rs; do
        names="$names $(basename "$file" .rs)"
    done
fi
export out seconds
(cd fuzz && CARGO_TARGET_DIR=$out cargo +nightly fuzz build)

# run NAME: runs one target and prints one line with its result.
run() {
    name=$1
    mkdir -p "$out/corpus/$name" "$out/artifacts/$name"
    log=$out/$name.log
    words=fuzz/dictionaries/${name%%_*}.dict
    words=$([ ! -e "$words" ] || echo "-dict=$words")
    # shellcheck disable=SC2086 # no word or one
    if "$out"/*/release/"$name" "-max_total_time=$seconds" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 "-artifact_prefix=$out/artifacts/$name/" $words \
        "$out/corpus/$name" "fuzz/corpus/$name" >"$log" 2>&1; then
        awk -v name="$name" -v seconds="$seconds" '
            / cov: / { for (i = 1; i < NF; i++) if ($i == "ft:") features = $(i + 1) }
            /number_of_executed_units/ { runs = $2 }
            END { printf "fuzzing: %s: %d executions in %d s, %d features\n", name, runs, seconds, features }
        ' "$log"
    else
        echo "fuzzing: $name: FAILED"
        grep -v -e '^#' -e '^INFO' "$log" | head -40
        grep -o "$out/artifacts.*" "$log" | sed "s|^|again: $(echo "$out"/*/release/"$name") |"
        return 1
    fi
}
export -f run

echo "fuzzing: $seconds s of each of$names"
# shellcheck disable=SC2086 # a list of words
printf '%s\n' $names | xargs -P 2 -I{} bash -c 'run {}'
