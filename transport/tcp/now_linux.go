package tcp

import (
	"syscall"
	"unsafe"
)

// nowMax is the most that one call moves behind the runtime's back: what takes the kernel some
// ten microseconds to copy.
const nowMax = bufferSize

// readNow reads a socket that never blocks. The runtime is not told of the system call, as it
// is of an ordinary one: it would wake its monitor, which sleeps while the process is idle, to
// take the processor from a goroutine that stays in the kernel. Of an idle process that only
// answers heartbeats, the monitor was two fifths of the processor time.
func readNow(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 || len(b) > nowMax {
		return syscall.Read(int(fd), b)
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// writeNow is the same for writing.
func writeNow(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 || len(b) > nowMax {
		return syscall.Write(int(fd), b)
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
