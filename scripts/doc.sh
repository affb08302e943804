#!/usr/bin/env bash
# Builds the documentation of all crates; a warning is an error. Its readers work on Tasuki, so it has the
# private items too, and pages may link to them.
set -eu
cd "$(dirname "$0")/.."
export RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links ${RUSTDOCFLAGS:-}"
exec cargo doc -q --workspace --no-deps --document-private-items
