#!/usr/bin/env bash
# Runs the models of ring, doorbell, marks, pools and words of sockets, in every interleaving with at most
# LOOM_MAX_PREEMPTIONS forced switches between threads. Three switches find practically all real faults, and
# the models end in a minute. Loom replaces the atomics, so these builds have a target directory of their own.
set -eu
cd "$(dirname "$0")/.."
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
# Nothing is timed, and linking would take longer than the models.
export CARGO_PROFILE_RELEASE_LTO=off
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
exec cargo test --release --target-dir "${CARGO_TARGET_DIR:-target}/loom" -p tasuki-shm --lib loom_models "$@"
