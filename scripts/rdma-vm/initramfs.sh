# Part of test-rdma.sh: the guest's root file system, in memory. The repository
# is not in it: the guest has it over 9p, read-only.

# crc32_generic: without it `rdma link add` fails with "No such file or directory".
guest_modules=(virtio_pci 9pnet_virtio 9p crc32_generic rdma_rxe ib_uverbs rdma_ucm dummy)

# with_libraries copies programs or libraries and what they need, by ldd.
with_libraries() {
  local file
  for file in "$@"; do
    { echo "$file"; ldd "$file" 2>/dev/null | grep -o '/[^ ]*'; } || true
  done | sort -u | while read -r file; do
    mkdir -p "$tree${file%/*}"
    cp -L "$file" "$tree$file"
  done
}

pack_initramfs() {
  local start=$SECONDS version module line provider lib onnx=$root/build/onnxruntime/libonnxruntime.so
  tree=$work/tree
  version=$(cat "$work/kernel/version")
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,sbin,usr/bin,usr/sbin,proc,sys,dev,tmp,etc/libibverbs.d,symphony,"$root"}
  # A merged /usr, as programs were linked for.
  [ ! -L /lib ] || { mkdir -p "$tree/usr/lib" "$tree/usr/lib64" && ln -s usr/lib usr/lib64 "$tree/"; }

  cp "$(command -v busybox)" "$tree/bin/busybox"
  ln -s busybox "$tree/bin/sh"
  # busybox's own modprobe does not find all dependencies: kmod's.
  with_libraries "$(readlink -f "$(command -v modprobe)")" "$(readlink -f "$(command -v ip)")" "$(readlink -f "$(command -v rdma)")"
  ln -s "$(readlink -f "$(command -v modprobe)")" "$tree/symphony/modprobe"
  ln -s "$(readlink -f "$(command -v ip)")" "$tree/symphony/ip"
  ln -s "$(readlink -f "$(command -v rdma)")" "$tree/symphony/rdma"

  # libibverbs is loaded at run time, and it loads the device's provider.
  lib=$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*x86-64.*=> //p' | head -n 1)
  [ -n "$lib" ] || die 'ldconfig knows no libibverbs.so.1: install libibverbs1'
  provider=$(ls "${lib%/*}"/libibverbs/librxe-*.so | head -n 1) || die 'no provider of rxe: install ibverbs-providers'
  with_libraries "$lib" "$provider"
  cp /etc/libibverbs.d/rxe.driver "$tree/etc/libibverbs.d/"

  for module in "${guest_modules[@]}"; do
    modprobe -d "$work/kernel" -S "$version" --show-depends "$module" >"$work/depends" 2>&1 ||
      die "kernel $version has no module $module: $(cat "$work/depends")"
    sed -n 's/^insmod \([^ ]*\).*/\1/p' "$work/depends"
  done | sort -u | while read -r line; do
    module=/lib/modules/${line##*/lib/modules/}
    mkdir -p "$tree${module%/*}"
    cp "$line" "$tree$module"
  done
  cp "$work/kernel/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$tree/lib/modules/$version/"
  depmod -b "$tree" "$version"

  cp "$work"/bin/* "$tree/symphony/"
  with_libraries "$work"/bin/symphony "$work"/bin/*.test
  rm -rf "$tree$work/bin"
  # ONNX Runtime itself comes over 9p; what it needs does not.
  [ ! -e "$onnx" ] || { with_libraries "$onnx" && rm -f "$tree$onnx"; }

  cp scripts/rdma-vm/init "$tree/init"
  chmod +x "$tree/init"
  printf 'root=%q\nargs=%q\nmodules=%q\nbench=%q\n' "$root" "${args[*]}" "${guest_modules[*]}" "${RDMA_VM_BENCH:-}" >"$tree/symphony/settings"
  # Not compressed: unpacking would be done under emulation.
  (cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initramfs.cpio"
  rm -rf "$tree"
  say "packed $(du -m "$work/initramfs.cpio" | cut -f1) MiB ($((SECONDS - start)) s)"
}
