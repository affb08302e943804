#!/usr/bin/env bash
# Makes sure that the tools for building, testing and demonstrating are there. As root on a system with
# apt it installs what is missing; otherwise it says what is missing and how to get it. Quick when
# nothing is missing.
set -eu

# Command, and the Debian package that has it.
tools="
gcc:gcc
python3:python3
ip:iproute2
curl:curl
wget:wget
nc:netcat-openbsd
ping:iputils-ping
tshark:tshark
ethtool:ethtool
setpriv:util-linux
nsenter:util-linux
sha256sum:coreutils
"

missing_commands=
missing_packages=
for tool in $tools; do
    if ! command -v "${tool%%:*}" >/dev/null; then
        missing_commands="$missing_commands ${tool%%:*}"
        missing_packages="$missing_packages ${tool#*:}"
    fi
done

if [ -n "$missing_commands" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing$missing_packages"
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086 # a list of words
        if ! apt-get -qq -y install --no-install-recommends $missing_packages >/dev/null; then
            # The package lists may be old.
            apt-get -qq update
            # shellcheck disable=SC2086
            apt-get -qq -y install --no-install-recommends $missing_packages >/dev/null
        fi
    else
        echo "missing:$missing_commands" >&2
        echo "install the packages$missing_packages, such as with:" >&2
        echo "  sudo apt-get install$missing_packages" >&2
        exit 1
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "missing: cargo (Rust 1.88 or later); get it from https://rustup.rs" >&2
    exit 1
fi
for part in fmt clippy; do
    if ! cargo "$part" --version >/dev/null 2>&1; then
        echo "missing: cargo $part; get it with \`rustup component add rustfmt clippy\`" >&2
        exit 1
    fi
done
