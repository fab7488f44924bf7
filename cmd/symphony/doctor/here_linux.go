package doctor

import (
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// waits that are measured; together they take about a quarter of a second.
const waits = 200

// Here is this host, measured now.
func Here() *Host {
	h := &Host{Root: "/", Cores: ring.Cores(), Caps: capabilities(),
		Limits: Limits{Locked: soft(unix.RLIMIT_MEMLOCK), Files: hard(unix.RLIMIT_NOFILE), Threads: soft(unix.RLIMIT_NPROC), Nice: soft(unix.RLIMIT_NICE)}}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var shm unix.Statfs_t
	if _, err := os.Stat("/dev/shm"); err == nil && unix.Statfs("/dev/shm", &shm) == nil {
		h.Shared = int64(shm.Blocks) * int64(shm.Bsize)
	}
	h.Clock = measured(waits)
	return h
}

func soft(which int) uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(which, &r) != nil {
		return Unlimited // unknown: say nothing of it
	}
	return r.Cur
}

func hard(which int) uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(which, &r) != nil {
		return Unlimited
	}
	return r.Max
}

func capabilities() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return 0
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// What adjtimex says of a clock that nothing keeps right (linux/timex.h).
const (
	timeError = 5
	staUnsync = 0x40
)

// measured waits as a loop of the scheduler does, on a thread of its own.
func measured(n int) Clock {
	c := Clock{Waits: n, Reading: reading()}
	var ts unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC, &ts) == nil {
		c.Resolution = mono.Dur(ts.Nano())
	}
	var tx unix.Timex
	if state, err := unix.Adjtimex(&tx); err == nil {
		c.SyncKnown, c.Synced = true, state != timeError && tx.Status&staUnsync == 0
	}
	late := make(chan []mono.Dur, 1)
	go func() { // the thread ends with the goroutine, and its timer slack with it
		ring.Lock()
		late <- lateness(n)
	}()
	all := <-late
	slices.Sort(all)
	c.LateP50, c.LateP99 = all[len(all)/2], all[len(all)*99/100]
	return c
}

func lateness(n int) []mono.Dur {
	var w ring.Waiter
	out := make([]mono.Dur, 0, n)
	for range n {
		until := mono.Now().Add(mono.Millisecond)
		w.ArmUntil(until)
		w.Wait(until)
		out = append(out, mono.Now().Sub(until))
	}
	return out
}

// reading is what one reading of the clock takes: the least of some rows, for others run, too.
func reading() mono.Dur {
	const row = 1000
	least := mono.Dur(mono.Never)
	for range 20 {
		start := mono.Now()
		for range row {
			runtime.KeepAlive(mono.Now())
		}
		least = min(least, mono.Now().Sub(start)/row)
	}
	return least
}
