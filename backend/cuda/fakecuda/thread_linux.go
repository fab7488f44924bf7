package fakecuda

import (
	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/mono"
)

// thread names the calling OS thread.
func thread() int { return unix.Gettid() }

// nap sleeps, more precisely than Go's timers.
func nap(d mono.Dur) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // who calls looks at the clock again
}
