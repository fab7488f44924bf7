#!/usr/bin/env bash
# What this machine's NVIDIA GPU makes of Symphony (make test-gpu): builds with the tag cuda,
# and runs `symphony bench gpu`, which leaves bench/gpu/REPORT.md. At most nine minutes, of
# which building is a part; fetching libraries (once, 1.4 GB) is not. Without a GPU it says
# what is missing, and ends before anything is built.
#
#   QUICK=1        a look, in some two minutes, into build/gpu/report
#   ONLY=a,b       these parts alone (symphony bench gpu --help lists them)
#   OUT=FOLDER     for the report
#   BUILD=1        only build, for a machine without Go or network: take this folder there,
#                  with bin, build/gpu, build/onnxruntime and the models
#   ARGS='...'     more flags of symphony bench gpu
#
# Without Go on the machine it runs what BUILD=1 made elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=540 # seconds, of everything but fetching
suite=build/gpu/bin/cuda.test

say() { printf -- '-- %s\n' "$*"; }
die() { printf 'test-gpu: %s\n' "$*" >&2; exit 1; }
miss() { printf 'test-gpu: missing: %s\n' "$*" >&2; }

# find_library NAME: where the loader, or a container runtime, has it.
find_library() {
  local name=$1 dir
  local -a dirs=()
  IFS=: read -r -a dirs <<<"${LD_LIBRARY_PATH:-}"
  for dir in "${dirs[@]}" /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib /usr/local/lib /usr/local/nvidia/lib64 /usr/lib/wsl/lib; do
    [ -n "$dir" ] && [ -e "$dir/$name" ] && { echo "$dir/$name"; return 0; }
  done
  { /sbin/ldconfig -p || ldconfig -p; } 2>/dev/null | awk -v n="$name" '$1 == n { print $NF; found = 1; exit } END { exit !found }'
}

# have_gpu: a device of NVIDIA's, or WSL's.
have_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ]
}

have_header() { [ -n "$(scripts/cuda-include.sh)" ]; }

have_libraries() { compgen -G 'build/gpu/lib/libonnxruntime_providers_cuda.so*' >/dev/null; }

# tell_missing says everything that is not there; false: it cannot go on.
tell_missing() {
  local ok=0
  if ! find_library libcuda.so.1 >/dev/null; then
    miss 'the driver (libcuda.so.1): install NVIDIA'"'"'s, 580 or newer for CUDA 13; in a container, start it with --gpus all'
    ok=1
  fi
  if ! have_gpu; then
    miss 'a GPU (no /dev/nvidia0): put one in, or run this on a machine that has one'
    ok=1
  fi
  [ $ok = 1 ] || return 0
  have_libraries || miss 'ONNX Runtime with CUDA in build/gpu/lib: `make gpu-libs` fetches it (1.4 GB), unless PyTorch and onnxruntime-gpu are installed'
  have_header || miss 'cuda.h of CUDA 12, which the tag cuda is built with: `make cuda-headers` fetches it'
  return 1
}

# build makes the binary, the suite and the models. What cannot be fetched is said by what needs it.
build() {
  if ! command -v go >/dev/null; then
    [ -x bin/symphony ] && [ -x "$suite" ] || die 'no Go, and nothing built elsewhere: install Go, or run `BUILD=1 make test-gpu` on a machine that has it and take the folder here'
    say 'no Go here: what was built elsewhere is run'
    return 0
  fi
  have_header || make --no-print-directory cuda-headers
  say 'building'
  make --no-print-directory build gpu-suite
  make --no-print-directory models zoo || say 'not all models are here: the parts that need them say so'
}

if [ "${BUILD:-}" = 1 ]; then
  build
  say "built: bin/symphony and $suite"
  exit 0
fi
tell_missing || exit 1
start=$SECONDS
build
spent=$((SECONDS - start))
missing=$(bin/symphony bench gpu --check ${ONLY:+--only "$ONLY"} 2>/dev/null) || {
  printf '%s\n' "$missing" | sed 's/^/test-gpu: missing: /' >&2
  # Only libraries can be fetched. Without them some parts fail, and the others run.
  if printf '%s\n' "$missing" | grep -qv '^libraries: '; then exit 1; fi
  if command -v go >/dev/null; then
    say 'fetching them; this time does not count'
    make --no-print-directory gpu-libs || say 'they could not be fetched: the parts that need them say so'
  fi
}
left=$((limit - spent))
[ $left -ge 60 ] || left=60
out=${OUT:-${QUICK:+build/gpu/report}}
exec bin/symphony bench gpu --suite "$suite" ${QUICK:+--quick} ${ONLY:+--only "$ONLY"} ${out:+--out "$out"} --limit "${left}s" ${ARGS:-}
