package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/transport/mono"
)

// BenchmarkPath is the whole path of a request: client library, scheduler,
// emulated GPU, READ and output, over TCP or in-process links, with 64 bytes in
// and out. So many are in flight that batches are full; what limits the rate
// is the processors.
func BenchmarkPath(b *testing.B) {
	for _, links := range []string{"tcp", "inproc"} {
		for _, batch := range []int{4, 16, 64} {
			b.Run(fmt.Sprintf("%s/batch%d", links, batch), func(b *testing.B) {
				benchPath(b, wholeSystem{Links: links, Models: 4, GPUs: 2048 / batch, MaxBatch: batch, Floats: 16, Alpha: 0.005, Beta: 1, SLO: 50 * mono.Millisecond})
			})
		}
	}
}

// pathWindow is how many requests are in flight.
const pathWindow = 4096

func benchPath(b *testing.B, w wholeSystem) {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	s, end, err := w.start(ctx, b.TempDir(), server.Watch{})
	if err != nil {
		b.Fatal(err)
	}
	defer end()
	f := newFlood(s.Client, pathWindow)
	f.run(20000) // buffers grow, the scheduler learns
	b.ReportAllocs()
	used := processorTime(b)
	b.ResetTimer()
	f.run(b.N)
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(100*float64(f.bad.Load())/float64(b.N), "%bad")
	b.ReportMetric(float64(b.N)*batchUnit/float64(f.batches.Load()), "items/batch")
}

// processorTime is what the process has used: it says what a change brought also
// on a machine that others use, too.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// batchUnit counts parts of a batch: each of its answers brings its share.
const batchUnit = 1 << 20

// flood keeps so many requests in flight: each answer sends the next.
type flood struct {
	client *frontend.Client
	models []load.ModelInput
	window int
	next   atomic.Int64 // requests begun
	open   atomic.Int64
	most   int64
	bad    atomic.Int64

	batches atomic.Int64 // times batchUnit

	done   chan struct{}
	answer func(*frontend.Response, error)
}

func newFlood(c *frontend.Client, window int) *flood {
	f := &flood{client: c, window: window, done: make(chan struct{}, 1)}
	for _, e := range c.Models().Entries {
		f.models = append(f.models, load.MakeInput(&e.Spec, 1))
	}
	f.answer = f.answered
	return f
}

// run sends n requests and waits for the last answer.
func (f *flood) run(n int) {
	f.next.Store(0)
	f.bad.Store(0)
	f.batches.Store(0)
	f.most = int64(n)
	first := min(f.window, n)
	f.open.Store(int64(first))
	for range first {
		f.send()
	}
	<-f.done
}

// send sends the next one, or gives its place up.
func (f *flood) send() {
	i := f.next.Add(1)
	if i > f.most {
		if f.open.Add(-1) == 0 {
			f.done <- struct{}{}
		}
		return
	}
	m := &f.models[int(i)%len(f.models)]
	f.client.InferAsync(context.Background(), frontend.Request{Model: m.Name, Inputs: m.Inputs}, f.answer)
}

func (f *flood) answered(r *frontend.Response, err error) {
	if err != nil || r.Slack < 0 {
		f.bad.Add(1)
	}
	if err == nil {
		f.batches.Add(batchUnit / int64(r.BatchSize))
		r.Release()
	}
	f.send()
}
