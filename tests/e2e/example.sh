#!/bin/sh
# example.sh PROGRAM: the worked example runs on a fresh directory and says what its own comment promises.
set -eu
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
"$1" "$data/store" >"$data/out"
for line in "done       ada   after 1 run" "done       bob   after 3 runs" "dead       cleo  after 1 run" \
    "dead       dora  after 4 runs" "dead       erik  after 1 run" "done       cleo  after 2 runs" "the chain holds"; do
    grep -qF "$line" "$data/out" || { echo "missing: $line"; cat "$data/out"; exit 1; }
done
