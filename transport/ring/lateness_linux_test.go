package ring

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
)

// BenchmarkLateness is how late waits of 1 ms end: by the futex's timeout, with
// a spin at its end, and by a timer of the kernel that is read.
func BenchmarkLateness(b *testing.B) {
	for _, c := range []struct {
		name string
		wait func() func(until mono.Time)
	}{{"futex", func() func(mono.Time) { return futexWait(0) }}, {"spin", func() func(mono.Time) { return futexWait(mono.Millisecond) }}, {"timerfd", timerfdWait}} {
		b.Run(c.name, func(b *testing.B) {
			Lock()
			wait := c.wait()
			var late histogram.Histogram
			for b.Loop() {
				until := mono.Now().Add(mono.Millisecond)
				wait(until)
				late.Add(mono.Now().Sub(until))
			}
			counts := late.Snapshot()
			b.ReportMetric(float64(counts.Quantile(0.5))/1000, "us-p50")
			b.ReportMetric(float64(counts.Quantile(0.99))/1000, "us-p99")
		})
	}
}

func futexWait(spin mono.Dur) func(mono.Time) {
	w := &Waiter{Spin: spin}
	return func(until mono.Time) {
		w.Arm()
		w.Wait(until)
	}
}

func timerfdWait() func(mono.Time) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0)
	if err != nil {
		panic(err)
	}
	var ticks [8]byte
	return func(until mono.Time) {
		span := unix.NsecToTimespec(max(1, int64(until.Sub(mono.Now()))))
		if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: span}, nil); err != nil {
			panic(err)
		}
		if _, err := unix.Read(fd, ticks[:]); err != nil || binary.NativeEndian.Uint64(ticks[:]) == 0 {
			panic("the timer did not fire")
		}
	}
}
