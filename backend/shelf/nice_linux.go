package shelf

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// nicest: what is left over of the processors.
const nicest = 19

// later runs f on a thread of the lowest priority, which ends with it, and waits for it.
func later(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nicest)
		f()
	}()
	<-done
}
