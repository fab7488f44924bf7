#!/usr/bin/env bash
# The test command of the README (make test): everything that needs no hardware. Stages run
# one after the other, so that the timed ones do not disturb each other; with arguments
# only the stages named.
set -uo pipefail
cd "$(dirname "$0")/.."
# Without cgo there is no ONNX Runtime and no race detector; the rest must pass.
cgo=$(go env CGO_ENABLED)
[ "$cgo" = 1 ] && export SYMPHONY_REQUIRE_ONNXRUNTIME=1
status=0
only=" $* "
stage() {
  local name=$2 start=$SECONDS
  [[ $only == "  " || $only == *" $1 "* ]] || return
  shift 2
  printf '\n== %s\n' "$name"
  if "$@"; then printf -- '-- %s: passed (%ss)\n' "$name" $((SECONDS - start)); else printf -- '-- %s: FAILED (%ss)\n' "$name" $((SECONDS - start)); status=1; fi
}
# Packages wait more than they compute: more of them at a time than there are processors. A
# stage has vetted all of them.
gotest() { go test -vet=off "$@"; }
module=$(go list -m)
# Packages that take long are tested by one stage only, but for the tests that this file names.
slow=$(sed '/^#/d' scripts/slow-tests.txt)
slow_packages=$(awk -v m="$module/" '{print m $1}' <<<"$slow")
telling=$(awk -v m="$module/" 'NF > 1 {print m $1}' <<<"$slow")
telling_tests="^($(awk '{for (i = 2; i <= NF; i++) {printf "%s%s", n++ ? "|" : "", $i}}' <<<"$slow"))\$"
unit() {
  local all rest failed=0 side
  all=$(go list ./... | grep -v /cmd/symphony/e2e) || return
  [ "$cgo" = 1 ] || { gotest -p "$(($(nproc) + 2))" -timeout 10m $all; return; }
  side=$(mktemp)
  gotest -p 2 -timeout 10m -run "$telling_tests" $telling >"$side" 2>&1 & # they wait much
  rest=$!
  gotest -p "$(nproc)" -timeout 10m $(grep -vxF "$slow_packages" <<<"$all") || failed=1
  wait "$rest" || failed=1
  printf -- '-- of the packages that other stages test whole, the tests named in scripts/slow-tests.txt:\n'
  cat "$side"
  rm "$side"
  return $failed
}
# Packages that start no goroutine have no races: they are tested with the cores' assertions
# on instead, which the race detector has on, too, in a fifth of the time.
single=$(go run ./cmd/archlint -single)
# The longest first, so that none of them is waited for at the end. HiGHS is WebAssembly that
# one goroutine compiles and runs: under the detector it takes ten times as long, and shows nothing.
race() {
  local all
  all=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -v -e /cmd/symphony/e2e -e /partition/highs | grep -vxF "$single") || return
  gotest -race -p "$(($(nproc) + 3))" -timeout 15m $(grep -xF "$all" <<<"$slow_packages") $(grep -vxF "$slow_packages" <<<"$all")
}
assertions() { gotest -tags invariants -timeout 15m $single; }
e2e() { gotest -count=1 -parallel "$(($(nproc) + 2))" -timeout 20m ./cmd/symphony/e2e/...; }
# What tag rdma adds compiles where libibverbs' headers are; make test-rdma runs it.
tagged() {
  if echo '#include <infiniband/verbs.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then go vet -tags rdma ./cgo/verbs ./cmd/symphony/...; else echo 'skipped: no infiniband/verbs.h (libibverbs-dev)'; fi
}
# What tag cuda adds: the door to the driver on a libcuda of its tests' own, and a binary that
# starts without a driver, all symbols bound. cuda.h is fetched if it is not there.
cuda_include() {
  scripts/cuda-include.sh | grep . && return
  [ -d cmd/fetch-gpu-libs ] && go run ./cmd/fetch-gpu-libs -headers >&2 && scripts/cuda-include.sh | grep .
}
tagged_cuda() (
  include=$(cuda_include) || { echo 'skipped: no cuda.h of CUDA 12, and it could not be fetched (make cuda-headers)'; exit 0; }
  export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -I$include" CGO_LDFLAGS="-L$PWD/cgo/cuda/link ${CGO_LDFLAGS:--O2 -g}"
  go vet -tags cuda ./cgo/cuda ./cmd/symphony/... && go test -tags cuda ./cgo/cuda && go test -tags cuda -run TestCUDA ./cmd/symphony/parts &&
    go build -tags cuda -o build/symphony-cuda ./cmd/symphony && version=$(LD_BIND_NOW=1 build/symphony-cuda version) && echo "$version" && [[ $version == *'with CUDA'* ]] &&
    build/symphony-cuda serve --config examples/quickstart.yaml --set frontend.http=127.0.0.1:0 --set scheduler.listen=inproc:scheduler --samples examples/digits/images --once
)
# Modules of their own: what client-go, Helm and Kustomize bring stays out of the main one. (Not vetted
# here: vet would look at all of that, too. make test-k8s does.)
manifests() (cd deploy && gotest .)
kube() (cd cmd/symphony-kube && gotest .)
formatted() { local files; files=$(gofmt -l .) && echo -n "$files" && [ -z "$files" ]; }
stage gofmt 'gofmt' formatted
stage vet 'go vet' go vet ./...
stage no-cgo 'without cgo' env CGO_ENABLED=0 go build ./...
stage deploy 'manifests, images, units' manifests
stage kube 'symphony-kube' kube
stage unit 'unit tests' unit
stage assertions 'with assertions' assertions
if [ "$cgo" = 1 ]; then
  stage race 'under the race detector' race
  stage rdma 'with tag rdma' tagged
  stage cuda 'with tag cuda' tagged_cuda
else
  printf '\n== skipped, as they need cgo: ONNX Runtime, the race detector, tags rdma and cuda\n'
fi
stage e2e 'end to end' e2e
[ "$status" = 0 ] && printf '\nall stages passed\n' || printf '\nsome stage FAILED, see above\n'
exit $status
