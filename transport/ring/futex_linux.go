package ring

import (
	"math/bits"
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

// Cores are those that this process may run on, in ascending order.
func Cores() []int {
	var set unix.CPUSet
	var out []int
	if unix.SchedGetaffinity(0, &set) == nil {
		for c := range len(set) * bits.UintSize {
			if set.IsSet(c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Pin ties the calling thread (see Lock) to a core.
func Pin(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}

// Prefer lets the calling thread go before others of its core, where the process may
// (CAP_SYS_NICE): the highest nice value, and a slice of the least length, for what
// such a thread does takes microseconds. For a pinned thread, which cannot go
// elsewhere. One that floats does without: each of its wake-ups would interrupt
// who woke it, and requests that come in a row would not be taken together (a fifth
// of the HTTP ingress's throughput on two cores).
func Prefer() {
	if unix.Setpriority(unix.PRIO_PROCESS, 0, niceLeast) != nil {
		return
	}
	if a, err := unix.SchedGetAttr(0, 0); err == nil {
		a.Runtime = sliceLeast
		_ = unix.SchedSetAttr(0, a, 0) // before Linux 6.12 it means nothing
	}
}

const (
	niceLeast  = -20
	sliceLeast = 100_000 // ns
)

// Background lets the calling thread (see Lock) go after others, for work that may
// wait. Not by much: while the kernel keeps it from running, the garbage collector may have
// to wait for it.
func Background() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceBackground) }

// niceBackground gives the thread a third of a processor beside one that wants all of it.
const niceBackground = 5

// ThreadTime is the processor's time that the calling thread (see Lock) has taken.
func ThreadTime() mono.Dur {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return mono.Dur(mono.Now())
	}
	return mono.Dur(t.Nano())
}

// Yield lets a thread go first that waits for this core: one that the caller has just
// woken, as a rule, and that would wait until the caller sleeps. Where none waits it
// costs a fraction of a microsecond.
func Yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Thread is the kernel's number of the calling thread.
func Thread() int { return unix.Gettid() }

// sleep returns at the latest at until; also earlier, for no reason at all.
func (w *Waiter) sleep(state uint32, until, now mono.Time) {
	var timeout *unix.Timespec
	if until != mono.Never {
		ts := unix.NsecToTimespec(int64(until.Sub(now)))
		timeout = &ts
	}
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.state)), futexWaitPrivate, uintptr(state),
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}

func (w *Waiter) wakeThread() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.state)), futexWakePrivate, 1, 0, 0, 0)
}
