//go:build !linux

package ring

import (
	"runtime"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Lock ties the calling goroutine to its thread.
func Lock() { runtime.LockOSThread() }

// sleep polls where there is no futex: right, but neither precise nor idle.
// Symphony is served on Linux; this keeps it building elsewhere.
func (w *Waiter) sleep(until, now mono.Time) {
	time.Sleep(min(until.Sub(now), 200*mono.Microsecond).Std())
}

func (w *Waiter) wakeThread() {}
