#!/usr/bin/env bash
# Follows docs/operations.md, "On one machine, with processes", word for word: its code blocks are run
# in one shell, in their order (make test-operations, a minute or two). It fails where a command fails, or
# takes longer than LIMIT, and ends what it has started.
set -euo pipefail
cd "$(dirname "$0")/.."
doc=${DOC:-docs/operations.md}
walk=$(mktemp)
awk '/^## /{on = /^## On one machine/; next} /^```/{code = on && !code; next} code' "$doc" >"$walk"
[ -s "$walk" ] || { echo "$doc has no commands to follow"; exit 1; }
rm -rf build/ops
end() {
  local status=$? f
  # Only those that still run under the name that they were started with.
  for f in build/ops/*.pid; do
    if [ -e "$f" ] && grep -qs symphony "/proc/$(cat "$f")/cmdline"; then kill -9 "$(cat "$f")" || true; fi
  done
  rm -f "$walk"
  if [ "$status" = 0 ]; then echo "docs/operations.md: all of it works"; else echo "docs/operations.md: status $status; the processes' logs are in build/ops"; fi
}
trap end EXIT
trap 'exit 130' INT TERM # else the end would take them for a success
timeout "${LIMIT:-300}" bash -euxo pipefail "$walk"
