#!/usr/bin/env bash
# The test command of the README (make test): everything that needs no hardware.
# Stages run one after the other, so that the timed ones do not disturb each other.
set -uo pipefail
cd "$(dirname "$0")/.."
# Without cgo there is no ONNX Runtime and no race detector; the rest must pass.
cgo=$(go env CGO_ENABLED)
[ "$cgo" = 1 ] && export SYMPHONY_REQUIRE_ONNXRUNTIME=1
status=0
stage() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then printf -- '-- %s: passed (%ss)\n' "$name" $((SECONDS - start)); else printf -- '-- %s: FAILED (%ss)\n' "$name" $((SECONDS - start)); status=1; fi
}
unit() { go test -timeout 10m $(go list ./... | grep -v /cmd/symphony/e2e); }
race() { go test -race -timeout 15m ./transport/... ./rdma/... ./cgo/... ./scheduler/... ./frontend/... ./backend/... ./bench/... ./cmd/symphony ./cmd/symphony/bench ./cmd/symphony/cli ./cmd/symphony/parts ./cmd/symphony/simcmd; }
e2e() { go test -count=1 -timeout 20m ./cmd/symphony/e2e/...; }
# What tag rdma adds compiles where libibverbs' headers are; make test-rdma runs it.
tagged() {
  if echo '#include <infiniband/verbs.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then go vet -tags rdma ./cgo/verbs ./cmd/symphony/...; else echo 'skipped: no infiniband/verbs.h (libibverbs-dev)'; fi
}
# What tag cuda adds: the door to the driver on a libcuda of its tests' own, and a binary that
# starts without a driver. cuda.h is fetched if it is not there.
cuda_include() {
  scripts/cuda-include.sh | grep . && return
  [ -d cmd/fetch-gpu-libs ] && go run ./cmd/fetch-gpu-libs -headers >&2 && scripts/cuda-include.sh | grep .
}
tagged_cuda() (
  include=$(cuda_include) || { echo 'skipped: no cuda.h of CUDA 12, and it could not be fetched (make cuda-headers)'; exit 0; }
  export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -I$include" CGO_LDFLAGS="-L$PWD/cgo/cuda/link ${CGO_LDFLAGS:--O2 -g}"
  go vet -tags cuda ./cgo/cuda ./cmd/symphony/... && go test -tags cuda ./cgo/cuda && go test -tags cuda -run TestCUDA ./cmd/symphony/parts &&
    go build -tags cuda -o build/symphony-cuda ./cmd/symphony && build/symphony-cuda version | tee /dev/stderr | grep -q 'with CUDA' &&
    build/symphony-cuda serve --config examples/quickstart.yaml --set frontend.http=127.0.0.1:0 --set scheduler.listen=inproc:scheduler --samples examples/digits/images --once
)
formatted() { test -z "$(gofmt -l . | tee /dev/stderr)"; }
stage 'gofmt' formatted
stage 'go vet' go vet ./...
stage 'without cgo' env CGO_ENABLED=0 go build ./...
stage 'unit tests' unit
if [ "$cgo" = 1 ]; then
  stage 'under the race detector' race
  stage 'with tag rdma' tagged
  stage 'with tag cuda' tagged_cuda
else
  printf '\n== skipped, as they need cgo: ONNX Runtime, the race detector, tags rdma and cuda\n'
fi
stage 'end to end' e2e
[ "$status" = 0 ] && printf '\nall stages passed\n' || printf '\nsome stage FAILED, see above\n'
exit $status
