#!/bin/sh
# deb.sh BUILD: the Debian package has what it promises, is the same when made twice, and what is unpacked runs.
set -eu
build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
deb=$("$source/scripts/make-deb" "$build" "$root/first")
"$source/scripts/make-deb" "$build" "$root/second" >/dev/null
cmp "$deb" "$root/second/$(basename "$deb")"

dpkg-deb -c "$deb" | awk '{ print $1, $2, $6 }' >"$root/list"
for line in "-rwxr-xr-x root/root ./usr/bin/lazaret" \
    "-rw-r--r-- root/root ./etc/lazaret/lazaret.yml" \
    "-rw-r--r-- root/root ./lib/systemd/system/lazaret.service" \
    "-rw-r--r-- root/root ./lib/systemd/system/lazaret.socket" \
    "-rw-r--r-- root/root ./usr/share/man/man1/lazaret.1.gz" \
    "-rw-r--r-- root/root ./usr/share/bash-completion/completions/lazaret" \
    "-rw-r--r-- root/root ./usr/share/zsh/vendor-completions/_lazaret" \
    "-rw-r--r-- root/root ./usr/share/fish/vendor_completions.d/lazaret.fish" \
    "-rw-r--r-- root/root ./usr/share/doc/lazaret/copyright" \
    "-rw-r--r-- root/root ./usr/share/doc/lazaret/changelog.gz"; do
    grep -qxF -- "$line" "$root/list" || { echo "not in the package: $line"; cat "$root/list"; exit 1; }
done
for file in $(cd "$source/packaging" && find grafana prometheus -type f 2>/dev/null); do
    grep -qF " ./usr/share/lazaret/$file" "$root/list" || { echo "not in the package: $file"; exit 1; }
done
for package in libc6 libsqlite3-0 libssl3 libmicrohttpd12 libyaml-0-2 libsmartcols1 adduser; do
    dpkg-deb -f "$deb" Depends | tr ',' '\n' | grep -q "^ *$package\b" || { echo "depends not on $package"; exit 1; }
done
dpkg-deb -e "$deb" "$root/control"
[ "$(cat "$root/control/conffiles")" = /etc/lazaret/lazaret.yml ]
for script in postinst prerm postrm; do
    sh -n "$root/control/$script"
done

dpkg-deb -x "$deb" "$root/unpacked"
(cd "$root/unpacked" && md5sum --quiet -c "$root/control/md5sums")
[ "$("$root/unpacked/usr/bin/lazaret" --version)" = "lazaret $(dpkg-deb -f "$deb" Version)" ]
"$root/unpacked/usr/bin/lazaret" status --data "$root/data" --config "$root/unpacked/etc/lazaret/lazaret.yml" >/dev/null
# What stands behind a "#" in the default configuration is understood too.
sed -E 's/^#([a-z]|  )/\1/' "$root/unpacked/etc/lazaret/lazaret.yml" >"$root/all.yml"
grep -q '^http:' "$root/all.yml"
"$root/unpacked/usr/bin/lazaret" status --data "$root/data" --config "$root/all.yml" >/dev/null

if command -v systemd-analyze >/dev/null; then
    # The unit is looked at as if the package were installed: its program and its manual are found.
    for unit in lazaret.service lazaret.socket; do
        sed -e "s|/usr/bin/lazaret|$root/unpacked/usr/bin/lazaret|" -e '/^Documentation=/d' \
            "$root/unpacked/lib/systemd/system/$unit" >"$root/$unit"
    done
    systemd-analyze verify "$root/lazaret.service" "$root/lazaret.socket" >"$root/verify" 2>&1 || { cat "$root/verify"; exit 1; }
    if grep -F "lazaret." "$root/verify"; then exit 1; fi
    # The threshold is ten times the exposure level: 2.0.
    systemd-analyze security --offline=true --threshold=20 "$root/lazaret.service" >"$root/security" 2>&1 ||
        { cat "$root/security"; exit 1; }
fi
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$deb"
fi
