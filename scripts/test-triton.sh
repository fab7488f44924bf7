#!/usr/bin/env bash
# The same requests over HTTP and gRPC to a Symphony of this tree and to a real Triton, and what differs
# (make test-triton). Triton comes from PyPI, into the environment that make peers has, too: Linux on x86-64,
# Python 3.11 (PYTHON=...). KEEP=1 writes docs/triton.md anew. With a pattern ("grpc infer*") only those cases.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/peers/triton
pins=bench/peers/triton/requirements.txt
if ! cmp -s "$pins" "$venv/installed.txt"; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --disable-pip-version-check -q -r "$pins"
  cp "$pins" "$venv/installed.txt"
fi
mkdir -p build/triton
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" scripts/triton/run.py "$venv" bin/symphony build/onnxruntime/libonnxruntime.so build/triton "$@"
if [ -n "${KEEP:-}" ]; then cp build/triton/results.md docs/triton.md; fi
