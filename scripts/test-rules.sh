#!/usr/bin/env bash
# Prometheus' rules and the dashboards' queries under promtool: that of the PATH, or else the one of
# Debian's package prometheus, which is unpacked below build and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v promtool >/dev/null; then
  into=$PWD/build/promtool
  if ! [ -x "$into/usr/bin/promtool" ]; then
    command -v apt-get >/dev/null || { echo 'no promtool in the PATH, and no apt-get to fetch it with: install Prometheus' >&2; exit 1; }
    mkdir -p "$into"
    (cd "$into" && rm -f prometheus_*.deb && apt-get -q download prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) ||
      { echo 'Debian'\''s package prometheus could not be fetched: run apt-get update, or install promtool' >&2; exit 1; }
  fi
  PATH=$into/usr/bin:$PATH
fi
promtool --version 2>&1 | head -n 1
SYMPHONY_REQUIRE_PROMTOOL=1 go test -count=1 ./cmd/dashboards
go test -count=1 -run TestMonitoring ./cmd/symphony/parts
scripts/dashboard-types.sh
