package ring

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	futexWaitPrivate = 0 | 128
	futexWakePrivate = 1 | 128
)

// Lock ties the calling goroutine to its thread and asks the kernel to end the
// thread's sleeps on time (timer slack of 1 ns instead of 50 us).
func Lock() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// sleep returns at the latest at until; also earlier, for no reason at all.
func (w *Waiter) sleep(until, now mono.Time) {
	var timeout *unix.Timespec
	if until != mono.Never {
		ts := unix.NsecToTimespec(int64(until.Sub(now)))
		timeout = &ts
	}
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.state)), futexWaitPrivate, sleeping,
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}

func (w *Waiter) wakeThread() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.state)), futexWakePrivate, 1, 0, 0, 0)
}
