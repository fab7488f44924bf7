# Part of test-rdma.sh: QEMU, and what its end means.

boot() {
  local start=$SECONDS limit=${RDMA_VM_LIMIT:-400} accel=${RDMA_VM_ACCEL:-tcg} image=$work/kernel/vmlinux machine rc
  [ -e "$image" ] || image=$work/kernel/bzImage
  case $accel in
  tcg) machine=(-accel tcg,thread=multi -cpu max) ;;
  *) machine=(-accel "$accel" -cpu host) ;;
  esac
  say "booting the VM (QEMU, $accel; killed after $limit s)"
  set +e
  # isa-debug-exit: the guest writes 16 + status to the port and QEMU ends with
  # 2 * that + 1, so that no status can be taken for one of QEMU's own.
  timeout --foreground "$limit" qemu-system-x86_64 "${machine[@]}" -m 4096 -smp 2 \
    -nodefaults -no-user-config -display none -serial stdio -no-reboot \
    -kernel "$image" -initrd "$work/initramfs.cpio" \
    -append 'console=ttyS0 quiet loglevel=2 panic=-1 mitigations=off random.trust_cpu=on' \
    -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
    -fsdev "local,id=repo,path=$root,security_model=none,readonly=on,multidevs=remap" \
    -device virtio-9p-pci,fsdev=repo,mount_tag=repo \
    -fsdev "local,id=out,path=$work/out,security_model=none,multidevs=remap" \
    -device virtio-9p-pci,fsdev=out,mount_tag=out \
    </dev/null 2>&1 | sed -u 's/\r$//' | tee "$work/console.log"
  rc=${PIPESTATUS[0]}
  set -e
  say "the VM ran for $((SECONDS - start)) s; all of its console: build/rdma/console.log"
  case $rc in
  33) say 'RDMA tests: passed' ;;
  124) die "RDMA tests: FAILED: the guest did not end within $limit s (RDMA_VM_LIMIT)" ;;
  0) die 'RDMA tests: FAILED: the guest ended without a result: its kernel panicked, or init died (above)' ;;
  *)
    [ "$rc" -gt 33 ] && [ $((rc % 2)) = 1 ] || die "RDMA tests: FAILED: QEMU could not run the guest (exit status $rc, above)"
    die "RDMA tests: FAILED ($(((rc - 33) / 2)) packages or steps, above)"
    ;;
  esac
}
