#!/bin/sh
# Builds the oracle once per machinery version: build.sh OUTDIR makes OUTDIR/oracle-v1.12 and OUTDIR/oracle-v1.13,
# and OUTDIR/oracle-client, which calls nodes.
# A binary whose sources and Go version are unchanged since its last build is not rebuilt.
# Prints the paths of the first two, separated by a colon, for $TALMOX_ORACLE.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 OUTDIR" >&2; exit 64; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"

# build NAME FOLDER MODFILE TAGS
build() {
    sums=${3%.mod}.sum
    # The checksum includes the file names, but not the path of the checkout.
    stamp=$({ go version; echo "$4"; sha256sum "$2"/*.go "$3" "$sums"; } | sha256sum | cut -d' ' -f1)
    if [ -x "$out/$1" ] && [ "$(cat "$out/$1.stamp" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    # The build goes to another file that is then moved: an interrupted build leaves no partial binary, and a running oracle
    # is not affected. The modules are those of the checked-in sums; the commit is not part of the binary.
    go build -trimpath -mod=readonly -buildvcs=false -modfile="$3" -tags="$4" -o "$out/$1.new" "$2"
    mv "$out/$1.new" "$out/$1"
    echo "$stamp" >"$out/$1.stamp"
}

build oracle-v1.12 . v1.12.mod machinery_v1_12
build oracle-v1.13 . go.mod ''
build oracle-client ./client go.mod ''
echo "$out/oracle-v1.12:$out/oracle-v1.13"
