package backend

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/executor"
)

type onThread struct {
	executor.Device
	id atomic.Int64
}

func (d *onThread) Thread() int { return int(d.id.Load()) }

// A thread that shares its processor with two others is crowded; before it ran it is not.
func TestCrowded(t *testing.T) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil || set.Count() == 0 {
		t.Skip("the processors that this process may use are not known")
	}
	first := 0
	for !set.IsSet(first) {
		first++
	}
	var only unix.CPUSet
	only.Set(first)
	d := &onThread{}
	p := &pool{devices: []executor.Device{d}}
	if p.crowded() {
		t.Error("crowded before there is a thread")
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			runtime.LockOSThread() // and never unlocked: it ends with its affinity
			if unix.SchedSetaffinity(0, &only) != nil {
				return
			}
			if i == 0 {
				d.id.Store(int64(unix.Gettid()))
			}
			for !stop.Load() {
			}
		})
	}
	defer all.Wait()
	defer stop.Store(true)
	if (&crowd{}).known() == false {
		t.Skip("this kernel does not tell how long threads wait")
	}
	for limit := time.Now().Add(20 * time.Second); !p.crowded(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("three threads on one processor are no crowd")
		}
	}
}

// known reports whether the kernel says anything of this thread.
func (c *crowd) known() bool {
	c.add(unix.Gettid())
	return c.ran > 0
}
