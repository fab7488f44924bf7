#!/usr/bin/env bash
# Runs every fuzz target of the tree for the given time, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
span=${1:-60s}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r pkg; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$pkg"/*_test.go | sed 's/^func //'); do
    echo "== $pkg $target ($span)"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$span" "$pkg" </dev/null
  done
done
