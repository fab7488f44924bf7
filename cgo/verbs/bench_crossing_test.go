//go:build rdma && rdmabench && cgo && linux

package verbs

import (
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// What a crossing costs here, with the lock and without a device:
//
//	go test -tags 'rdma rdmabench' -run '^$' -bench Crossing ./cgo/verbs

// BenchmarkCrossingPoll is a crossing with one look.
func BenchmarkCrossingPoll(b *testing.B) {
	q, space := emptyCQ(), make([]rdma.Completion, 64)
	b.ReportAllocs()
	for b.Loop() {
		q.Poll(space, 1)
	}
}

// BenchmarkCrossingPollInC is one look of many in one crossing.
func BenchmarkCrossingPollInC(b *testing.B) {
	q, space := emptyCQ(), make([]rdma.Completion, 64)
	q.Poll(space, b.N)
}

// BenchmarkCrossingPost1 and 32: a burst of so many work requests.
func BenchmarkCrossingPost1(b *testing.B)  { benchmarkCrossingPost(b, 1) }
func BenchmarkCrossingPost32(b *testing.B) { benchmarkCrossingPost(b, 32) }

func benchmarkCrossingPost(b *testing.B, burst int) {
	q, wrs := emptyQP(), make([]rdma.SendWR, burst)
	b.ReportAllocs()
	for b.Loop() {
		q.PostSend(wrs)
	}
}
