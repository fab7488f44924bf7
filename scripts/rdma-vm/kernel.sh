# Part of test-rdma.sh: a stock kernel, unpacked and not installed. It is kept
# under build/rdma/kernel until `make clean`.

# kernel_packages prints what holds the current kernel and its modules. Debian's
# cloud flavour has neither rdma_rxe nor 9p, so the plain one.
kernel_packages() {
  local image version
  image=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
  if [ -n "$image" ]; then
    echo "$image"
    return
  fi
  # Ubuntu: the modules are in packages of their own.
  version=$(apt-cache depends linux-image-generic 2>/dev/null | sed -n 's/^ *Depends: linux-image-\([0-9].*\)$/\1/p' | head -n 1)
  [ -z "$version" ] || echo "linux-image-$version linux-modules-$version linux-modules-extra-$version"
}

fetch_kernel() {
  local kernel=$work/kernel deb
  [ ! -e "$kernel/version" ] || return 0
  command -v apt-get >/dev/null || die 'fetching a kernel needs apt-get (Debian, Ubuntu)'
  rm -rf "$kernel" "$work/debs"
  mkdir -p "$kernel" "$work/debs"
  # A bare machine has no lists yet, and old lists name packages that are gone.
  if ! download_kernel; then
    if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi || die 'apt-get update failed: is the package registry reachable?'
    download_kernel || die 'could not download a kernel (linux-image-amd64, linux-image-generic): is the package registry reachable?'
  fi
  for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$kernel" || die "$deb cannot be unpacked"; done
  rm -rf "$work/debs"
  prepare_kernel
}

download_kernel() {
  local packages
  packages=$(kernel_packages)
  [ -n "$packages" ] || return 1
  say "fetching $packages"
  # shellcheck disable=SC2086 # a list
  (cd "$work/debs" && apt-get download -qq $packages 2>&1 | grep -v 'unsandboxed as root' >&2; exit "${PIPESTATUS[0]}")
}

# prepare_kernel indexes the modules and makes vmlinux, which boots two seconds
# sooner under emulation than an image that unpacks itself.
prepare_kernel() {
  local kernel=$work/kernel image version at
  image=$(ls "$kernel"/boot/vmlinuz-* | head -n 1) || die 'the package holds no /boot/vmlinuz-*'
  version=${image##*/vmlinuz-}
  [ -d "$kernel/lib/modules" ] || ln -s usr/lib "$kernel/lib" # newer packages are merged
  depmod -b "$kernel" "$version" || die "depmod failed for $version"
  cp "$image" "$work/kernel/bzImage"
  # An image compressed with xz, as Debian's is, starts so; of others bzImage boots.
  for at in $(LC_ALL=C grep -abo $'\xfd7zXZ' "$image" | cut -d: -f1); do
    tail -c +$((at + 1)) "$image" | xz -dc --single-stream >"$kernel/vmlinux" 2>/dev/null || true
    [ "$(head -c 4 "$kernel/vmlinux" | tail -c 3)" = ELF ] && break
    rm -f "$kernel/vmlinux"
  done
  echo "$version" >"$kernel/version"
}
