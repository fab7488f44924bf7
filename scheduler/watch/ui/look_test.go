//go:build unix

package ui

import (
	"syscall"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lookOf are 400 batches of one request, and their reports, on 64 GPUs: a look at 2,000 requests/s.
func lookOf(number int) (all []watch.Event) {
	at := mono.Time(1_000_000_000_000_000).Add(mono.Dur(number) * 200 * mono.Millisecond) // a scheduler that is up for eleven days
	for i := range 400 {
		n := 400*number + i
		id, model, gpu := wire.BatchID(1<<56|n<<16|n%200), wire.ModelID(n*7%37), wire.GPUID(n*11%64)
		at = at.Add(500 * mono.Microsecond)
		arrival := at.Add(-3_141_592 - mono.Dur(n%1000)*100)
		exec := at.Add(271_828)
		until := exec.Add(9_123_456 + mono.Dur(model)*100_000)
		all = append(all, watch.Event{Kind: watch.Batch, At: at, Model: model, GPU: gpu, Batch: id, Due: at.Add(1000), Exec: exec, Until: until, Size: 1,
			Requests: []watch.Request{{Key: watch.Key{Frontend: 1, ID: wire.RequestID(n)}, Arrival: arrival, Deadline: arrival.Add(45 * mono.Millisecond)}}},
			watch.Event{Kind: watch.Done, At: at.Add(20_000), Model: model, GPU: gpu, Batch: id, Exec: exec.Add(5000), Until: at.Add(-80_123), Fetch: 123_456, Size: 1})
	}
	return all
}

// BenchmarkLook is what the hub pays for one look of that size with a viewer, or with none (always), with its minute full.
// docs/performance.md has what it was before events were packed.
func BenchmarkLook(b *testing.B) {
	for name, viewers := range map[string]int{"viewer": 1, "always": 0} {
		b.Run(name, func(b *testing.B) {
			f := &fake{}
			h := NewHub(Config{Source: func() Source { return f }, Always: true})
			defer h.Close()
			h.mu.Lock()
			defer h.mu.Unlock()
			v := &viewer{chunks: make(chan *chunk, 1)}
			for range viewers {
				h.viewers[v] = true
			}
			var told watch.Told
			for _, e := range lookOf(0) {
				told.Add(&e)
			}
			look := func() {
				for record := range watch.Records(told.Words) { // the next look is like it, and later
					for _, i := range later(watch.RecordKind(record)) {
						record[i] += uint64(200 * mono.Millisecond)
					}
				}
				h.told.Words = append(h.told.Words, told.Words...)
				h.turn()
				for range viewers {
					h.sent(<-v.chunks)
				}
			}
			for range 310 { // a minute
				look()
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := used(b)
			for range b.N {
				look()
			}
			b.ReportMetric(float64(used(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// later are the words of a record that are instants.
func later(k watch.Kind) []int {
	if k == watch.Batch {
		return []int{1, 5, 6, 7, 11, 12}
	}
	return []int{1, 5, 6}
}

// used is the processor time so far: what else a machine does is not in it.
func used(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
