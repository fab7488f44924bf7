package ring

import (
	"sync"
	"testing"
)

// record has the size of what the scheduler's rings carry for a request.
type record [10]uint64

// BenchmarkQueue: one value in and out on one thread, singly and in bursts; and
// from one thread to another.
func BenchmarkQueue(b *testing.B) {
	var v record
	b.Run("pop", func(b *testing.B) {
		q := NewQueue[record](1024)
		b.ReportAllocs()
		for b.Loop() {
			q.Push(&v)
			q.Pop(&v)
		}
	})
	b.Run("burst", func(b *testing.B) {
		const burst = 64
		q, vs, sum := NewQueue[record](1024), make([]record, burst), uint64(0)
		b.ReportAllocs()
		for n := 0; n < b.N; n += burst {
			q.PushAll(vs)
			for from := q.Next(); from != nil; from = q.Next() {
				sum += from[0]
			}
			q.Release()
		}
	})
	b.Run("threads", func(b *testing.B) { acrossThreads(b, 1) })
	b.Run("threads16", func(b *testing.B) { acrossThreads(b, 16) })
}

// acrossThreads pushes bursts while another thread takes them.
func acrossThreads(b *testing.B, burst int) {
	q, vs := NewQueue[record](4096), make([]record, burst)
	total := (b.N + burst - 1) / burst * burst
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; n < total; {
			for from := q.Next(); from != nil; from = q.Next() {
				n++
			}
			q.Release()
		}
	})
	b.ResetTimer()
	for n := 0; n < total; {
		n += q.PushAll(vs[:min(burst, total-n)])
	}
	wg.Wait()
}
