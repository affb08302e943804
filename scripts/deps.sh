#!/usr/bin/env bash
# deps.sh [build|demo|demo-storage|bench|bench-storage|applications|instructions|test|programs]: makes sure that the
# tools for that task are there. As root on a system with apt it installs missing tools. Otherwise it prints their
# names and how to get them. It is
# quick when nothing is missing.
set -eu
what=${1:-test}

# Command, and the Debian package that has it.
tools="gcc:gcc"
[ "$what" = build ] || tools="$tools python3:python3 ip:iproute2 curl:curl sha256sum:coreutils"
[ "$what" != bench ] || tools="$tools ethtool:ethtool taskset:util-linux sysctl:procps"
[ "$what" != bench-storage ] || tools="$tools ethtool:ethtool taskset:util-linux tgtd:tgt tgtadm:tgt iscsi-perf:libiscsi-bin"
[ "$what" != demo-storage ] || tools="$tools nsenter:util-linux losetup:mount mkfs.ext4:e2fsprogs fusermount3:fuse3"
[ "$what" != applications ] || tools="$tools taskset:util-linux prlimit:util-linux setpriv:util-linux sysctl:procps
    redis-server:redis-server redis-benchmark:redis-tools nginx:nginx wrk:wrk iperf3:iperf3 sockperf:sockperf
    postgres:postgresql pgbench:postgresql memcached:memcached memcaslap:libmemcached-tools"
[ "$what" != instructions ] || tools="$tools valgrind:valgrind"
[ "$what" != test ] || tools="$tools wget:wget nc:netcat-openbsd ping:iputils-ping traceroute:traceroute tshark:tshark
    ethtool:ethtool iperf3:iperf3 passt:passt socat:socat gunicorn:gunicorn setpriv:util-linux nsenter:util-linux"
# cargo-fuzz, where it is, builds libFuzzer.
[ "$what" != test ] || ! command -v cargo-fuzz >/dev/null || tools="$tools c++:g++"

# Programs that tests run. Only root gets them; without one of them its tests say SKIP.
programs=
case "$what" in test | programs)
    programs="nft:nftables setpriv:util-linux nsenter:util-linux openssl:openssl nginx:nginx haproxy:haproxy
    postgres:postgresql memcached:memcached mariadbd:mariadb-server mariadb:mariadb-client
    redis-server:redis-server redis-cli:redis-tools php:php-cli ruby:ruby wrk:wrk ab:apache2-utils
    systemd-socket-activate:systemd socat:socat wget:wget nc:netcat-openbsd rsync:rsync dig:bind9-dnsutils
    sockperf:sockperf iperf3:iperf3 iscsi-ls:libiscsi-bin qemu-img:qemu-utils
    nbdkit:nbdkit nbdinfo:libnbd-bin tgtd:tgt fio:fio losetup:mount mkfs.ext4:e2fsprogs make:make
    fusermount3:fuse3 cryptsetup:cryptsetup-bin ssh:openssh-client sshd:openssh-server
    strace:strace bwrap:bubblewrap gdb:gdb valgrind:valgrind redis-benchmark:redis-tools readelf:binutils
    rsvg-convert:librsvg2-bin chromium-headless-shell:chromium-headless-shell node:nodejs java:default-jdk-headless javac:default-jdk-headless go:golang-go" ;;
esac
[ "$(id -u)" != 0 ] || tools="$tools $programs"

# Debian keeps some programs off PATH; Go's own archive is unpacked in /usr/local.
for folder in /usr/sbin /usr/lib/postgresql/*/bin /usr/local/go/bin; do PATH="$PATH:$folder"; done

commands=
packages=
for tool in $tools; do
    if ! command -v "${tool%%:*}" >/dev/null; then
        commands="$commands ${tool%%:*}"
        packages="$packages ${tool#*:}"
    fi
done

# A guest, in which sg3-utils are: an emulator, programs, and a kernel (below).
guest=
if [ "$what" = programs ] && [ "$(id -u)" = 0 ] && [ "$(uname -m)" = x86_64 ]; then
    guest=${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/guest
    for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static sg_inq:sg3-utils; do
        command -v "${tool%%:*}" >/dev/null || packages="$packages ${tool#*:}" commands="$commands ${tool%%:*}"
    done
    # A smaller busybox is there.
    if command -v busybox >/dev/null && ! busybox --list | grep -qx depmod; then
        commands="$commands busybox-static"
        packages="$packages busybox-static"
    fi
fi

# A module, which is no command.
if [ "$(id -u)" = 0 ] && [ -n "$programs" ] && ! python3 -c 'import requests' 2>/dev/null; then
    commands="$commands python3-requests"
    packages="$packages python3-requests"
fi

# libnbd of the distribution's own Python.
if [ "$(id -u)" = 0 ] && [ -n "$programs" ] && ! /usr/bin/python3 -c 'import nbd' 2>/dev/null; then
    commands="$commands python3-libnbd"
    packages="$packages python3-libnbd"
fi

# QEMU's driver, which is no command either.
if [ "$(id -u)" = 0 ] && [ -n "$programs" ] && ! ls /usr/lib/*/qemu/block-iscsi.so >/dev/null 2>&1; then
    commands="$commands qemu-block-extra"
    packages="$packages qemu-block-extra"
fi

install() {
    # systemctl, which packages of servers call, starts nothing when it is offline.
    # shellcheck disable=SC2086 # a list of words
    SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $packages >/dev/null
}

if [ -n "$commands" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing$packages"
        # At first the package lists may be old.
        if ! install 2>/dev/null && ! { apt-get -qq update && install; }; then
            echo "cannot install$packages (for$commands): install them by other means" >&2
            exit 1
        fi
    else
        echo "missing:$commands" >&2
        echo "install the packages$packages, such as with:" >&2
        echo "  sudo apt-get install$packages" >&2
        exit 1
    fi
fi

# The newest kernel of the distribution for virtual machines. It is unpacked for the guest, and not installed: a package
# of a kernel changes how the machine itself starts. Without it the guest's test says SKIP.
unpack_kernel() {
    meta=linux-image-cloud-$(dpkg --print-architecture)
    package=$(apt-cache depends "$meta" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$package" ] || return 1
    folder=$(mktemp -d) || return 1
    (cd "$folder" && apt-get -qq download "$package" 2>/dev/null) &&
        dpkg-deb --fsys-tarfile "$folder"/*.deb | tar -x -C "$folder" --wildcards './boot/vmlinuz-*' \
            './lib/modules/*/kernel/drivers/scsi' './lib/modules/*/kernel/drivers/virtio' \
            './lib/modules/*/kernel/block' './lib/modules/*/kernel/crypto' './lib/modules/*/kernel/lib' &&
        mkdir -p "$guest" && cp -r "$folder/boot" "$folder/lib" "$guest"
    code=$?
    rm -rf "$folder"
    return "$code"
}

if [ -n "$guest" ] && ! ls "$guest"/boot/vmlinuz-* >/dev/null 2>&1; then
    echo "fetching a kernel for a guest"
    unpack_kernel || { apt-get -qq update && unpack_kernel; } || echo "there is no kernel for a guest" >&2
fi

if ! command -v cargo >/dev/null; then
    echo "missing: cargo (Rust 1.88 or later); get it from https://rustup.rs" >&2
    exit 1
fi
[ "$what" = test ] || exit 0
for part in fmt clippy; do
    if ! cargo "$part" --version >/dev/null 2>&1; then
        echo "missing: cargo $part; get it with \`rustup component add rustfmt clippy\`" >&2
        exit 1
    fi
done

# Static programs in Rust, which some tests run.
case "$what" in test | programs)
    if command -v rustup >/dev/null; then
        rustup -q target add "$(uname -m)-unknown-linux-musl" >/dev/null 2>&1 || true
    fi ;;
esac
