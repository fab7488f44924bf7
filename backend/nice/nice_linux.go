package nice

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs f on a thread of its own with a niceness, and waits for it; the thread ends with f.
// What f starts of threads has its priority, goroutines that it starts have not.
func Run(niceness int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
		f()
	}()
	<-done
}
