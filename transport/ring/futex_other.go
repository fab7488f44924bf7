//go:build !linux

package ring

import (
	"runtime"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Lock ties the calling goroutine to its thread.
func Lock() { runtime.LockOSThread() }

// Cores are those that there are.
func Cores() []int {
	out := make([]int, runtime.NumCPU())
	for i := range out {
		out[i] = i
	}
	return out
}

// Yield lets another goroutine go first.
func Yield() { runtime.Gosched() }

// Pin does nothing here.
func Pin(int) error { return nil }

// Prefer does nothing here.
func Prefer() {}

// Thread is 0 here: threads have no numbers that we know.
func Thread() int { return 0 }

// sleep polls where there is no futex: right, but neither precise nor idle.
// Symphony is served on Linux; this keeps it building elsewhere.
func (w *Waiter) sleep(state uint32, until, now mono.Time) {
	time.Sleep(min(until.Sub(now), 200*mono.Microsecond).Std())
}

func (w *Waiter) wakeThread() {}

// Background does nothing here.
func Background() {}

// ThreadTime is a clock here: more than the thread has taken.
func ThreadTime() mono.Dur { return mono.Dur(mono.Now()) }
