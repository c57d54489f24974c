#!/bin/sh
# install.sh BUILD: what is installed is enough for an embedding program, linked either way, and shows only lz_.
set -eu
build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root meson install -C "$build" --no-rebuild --quiet
prefix=$root$(meson introspect "$build" --buildoptions | python3 -c "import json,sys; print({o['name']: o['value'] for o in json.load(sys.stdin)}['prefix'])")
library=$(dirname "$(find "$prefix" -name liblazaret.a)")
export PKG_CONFIG_PATH=$library/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root

for file in bin/lazaret include/lazaret.h share/man/man1/lazaret.1 share/bash-completion/completions/lazaret \
    share/zsh/site-functions/_lazaret share/fish/vendor_completions.d/lazaret.fish; do
    [ -s "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
for names in "nm -D --defined-only $library/liblazaret.so" "nm -g --defined-only $library/liblazaret.a"; do
    others=$($names | awk 'NF == 3 && $3 !~ /^lz_/ { print $3 }')
    [ -z "$others" ] || { echo "seen from outside: $others"; exit 1; }
done

cc=${CC:-cc}
$cc -o "$root/shared" "$source/examples/invoices.c" $(pkg-config --cflags --libs lazaret)
LD_LIBRARY_PATH=$library "$root/shared" "$root/data1" | grep -q 'the chain holds'
$cc -o "$root/static" "$source/examples/invoices.c" $(pkg-config --cflags lazaret) "$library/liblazaret.a" \
    $(pkg-config --static --libs-only-l lazaret | sed 's/-llazaret//')
"$root/static" "$root/data2" | grep -q 'the chain holds'
