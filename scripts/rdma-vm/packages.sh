# Part of test-rdma.sh: what the machine must have, installed where it is missing
# (Debian, Ubuntu).

# need PACKAGE TEST...: asks for the package unless the test succeeds.
missing=()
need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  command -v apt-get >/dev/null || die "needs ${missing[*]} (names of Debian's packages): install them"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "needs root, or sudo, to install: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log=$root/build/rdma-apt.log
  mkdir -p "$root/build"
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    die "apt-get could not install ${missing[*]} (above; all of it: $log)"
  fi
  missing=()
}

need_tools_to_build() {
  command -v go >/dev/null || die 'Go 1.26 or later is needed: see README.md'
  need gcc command -v gcc
  need libc6-dev test -e /usr/include/stdlib.h
  need libibverbs-dev test -e /usr/include/infiniband/verbs.h
  install_missing
}

need_tools_of_vm() {
  need qemu-system-x86 command -v qemu-system-x86_64
  need busybox-static static_busybox
  need cpio command -v cpio
  need kmod command -v depmod
  need iproute2 command -v rdma
  need ibverbs-providers test -e /etc/libibverbs.d/rxe.driver
  need xz-utils command -v xz
  install_missing
}

static_busybox() { command -v busybox && ! ldd "$(command -v busybox)"; }
