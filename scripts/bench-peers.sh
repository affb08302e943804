#!/usr/bin/env bash
# bench-peers.sh FOLDER TASUKI: builds the peers' clients into FOLDER, then measures them beside the
# kernel's TCP and Tasuki. A peer that does not build is left out. All have the same kind of TAP, the same
# orders and the same server. lwIP is Debian's package (installed here as root), gVisor's netstack a Go
# module, smoltcp a crate. A rump kernel is in no registry. BENCH_ARGS: more options of `tasuki-bench compare`.
set -eu
folder=$1
tasuki=$2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
setups="linux-off,split-off,library-off,smoltcp"

if [ ! -e /usr/include/lwip/lwip/sockets.h ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing liblwip-dev"
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends liblwip-dev >/dev/null || true
fi
if gcc -O2 -Wall -I/usr/include/lwip "$here/benches/peers/lwip/main.c" -llwip -lpthread \
    -o "$folder/tasuki-peer-lwip"; then
    setups="$setups,lwip"
else
    echo "SKIP lwIP: it does not build; get it with \`apt-get install liblwip-dev\`" >&2
fi

if ! command -v go >/dev/null; then
    echo "SKIP gVisor: it needs Go (https://go.dev/dl)" >&2
elif (cd "$here/benches/peers/gvisor" && go build -o "$folder/tasuki-peer-gvisor" .); then
    setups="$setups,gvisor"
else
    echo "SKIP gVisor: it does not build" >&2
fi

# shellcheck disable=SC2086 # a list of words
cargo run --release -q -p tasuki-benches -- compare --tasuki "$tasuki" --peers "$folder" --only "$setups" ${BENCH_ARGS:-}
