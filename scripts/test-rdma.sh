#!/usr/bin/env bash
# Tests on real RDMA (make test-rdma): libibverbs and a device of the kernel.
# Machines without an RDMA NIC have one in a VM: a stock kernel's soft-RoCE
# (rdma_rxe), booted by QEMU under emulation. It says that the code works, and
# nothing about speed.
#
#   HOST=1             test on this host's own RDMA device instead of in a VM
#   V=1                the names of the tests
#   RACE=1             under the race detector
#   RDMA_TEST_ARGS     more arguments of the test binaries (-test.run=..., -test.bench=...)
#   RDMA_VM_PACKAGES   other packages than these below
#   RDMA_VM_ACCEL=kvm  with hardware virtualisation (where it works: it is not the default
#                      because a guest inside another often hangs or dies)
#   RDMA_VM_BENCH=1    `symphony bench net` at the end, its files in build/rdma/out
#   RDMA_VM_LIMIT      seconds until a guest that does not end is killed [400]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

# What is tested. One that does not exist (yet), or has no tests, is skipped.
packages=${RDMA_VM_PACKAGES:-"
  ./cgo/verbs
  ./rdma
  ./transport/rdmalink
  ./cmd/symphony/rdmae2e
"}
race=${RACE:+-race}
args=(-test.timeout=240s ${V:+-test.v} ${RDMA_TEST_ARGS:-})

# What the end-to-end test needs beside the binaries (as in the Makefile).
need_onnxruntime() {
  local lib=build/onnxruntime/libonnxruntime.so
  [ -e "$lib" ] || go run ./cmd/fetch-onnxruntime -o "$lib" || die "ONNX Runtime could not be fetched: make models says more"
}

die() { printf 'test-rdma: %s\n' "$*" >&2; exit 1; }
say() { printf -- '-- %s\n' "$*"; }
. scripts/rdma-vm/packages.sh

existing() {
  local p
  for p in $packages; do [ ! -d "$p" ] || echo "$p"; done
}

if [ "${HOST:-}" = 1 ]; then
  need_tools_to_build
  need_onnxruntime
  say "on this host's own RDMA device"
  SYMPHONY_REQUIRE_RDMA=1 exec go test -tags rdma $race -count=1 $(existing) -args "${args[@]:1}"
fi
[ "$(uname -m)" = x86_64 ] || die "the VM is for x86_64 hosts; with an RDMA device of your own: HOST=1 make test-rdma"

work=$root/build/rdma
mkdir -p "$work/out" "$work/bin"
exec 9>"$work/lock"
flock -n 9 || { say 'another run is under way: waiting for it'; flock 9; }

start=$SECONDS
need_tools_to_build
need_tools_of_vm
need_onnxruntime
. scripts/rdma-vm/kernel.sh
fetch_kernel
say "kernel $(cat "$work/kernel/version") ($((SECONDS - start)) s)"

# only prints what of a package is tested in the VM: there is no need to pass the
# software NIC's tests again, and emulation makes them long. RDMA_TEST_ARGS comes
# behind it and can say otherwise.
only() {
  case $1 in
  ./rdma | ./transport/rdmalink) echo '-test.run=^TestDevice' ;;
  esac
}

# The manifest: package folder, binary, and arguments of its own, a line each.
start=$SECONDS
: >"$work/bin/manifest"
for p in $(existing); do
  name=$(echo "${p#./}" | tr / _).test
  rm -f "$work/bin/$name"
  go test -c -tags rdma $race -ldflags '-s -w' -o "$work/bin/$name" "$p" || die "$p does not build with -tags rdma"
  [ ! -e "$work/bin/$name" ] || echo "${p#./} $name $(only "$p")" >>"$work/bin/manifest"
done
[ -s "$work/bin/manifest" ] || die "none of the packages has tests: $packages"
go build -tags rdma -o "$work/bin/symphony" ./cmd/symphony || die './cmd/symphony does not build with -tags rdma'
say "built $(wc -l <"$work/bin/manifest") test binaries and symphony ($((SECONDS - start)) s)"

. scripts/rdma-vm/initramfs.sh
pack_initramfs
. scripts/rdma-vm/boot.sh
boot
