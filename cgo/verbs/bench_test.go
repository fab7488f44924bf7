//go:build rdma && cgo && linux

package verbs

import (
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// BenchmarkPollEmpty is one crossing into C with one look at an empty queue.
func BenchmarkPollEmpty(b *testing.B) {
	p := connect(b)
	space := make([]rdma.Completion, 16)
	for b.Loop() {
		p.cq[0].Poll(space, 1)
	}
}

// BenchmarkPollEmptyInC is one look of many in one crossing.
func BenchmarkPollEmptyInC(b *testing.B) {
	p := connect(b)
	space := make([]rdma.Completion, 16)
	p.cq[0].Poll(space, b.N)
}

// BenchmarkPost1 and 32: WRITEs of 8 bytes, posted in bursts of one crossing. Only
// the posting is timed (ns/post, for each of a burst); soft-RoCE rings its doorbell with a
// system call, once a burst.
func BenchmarkPost1(b *testing.B)  { benchmarkPost(b, 1) }
func BenchmarkPost32(b *testing.B) { benchmarkPost(b, 32) }

func benchmarkPost(b *testing.B, burst int) {
	p := connect(b)
	mem := allocate(b, p.device, 4096)
	wrs := make([]rdma.SendWR, burst)
	for i := range wrs {
		wrs[i] = rdma.SendWR{Op: rdma.OpWrite, Remote: mem.at(64), RKey: mem.region.RKey(), SGEs: [2]rdma.SGE{mem.sge(0, 8)}, NumSGE: 1}
	}
	wrs[burst-1].Signaled = true
	var posting mono.Dur
	posted := 0
	for b.Loop() {
		start := mono.Now()
		p.send(b, 0, wrs...)
		posting += mono.Now().Sub(start)
		posted += burst
		p.completions(b, 0, 1)
	}
	b.ReportMetric(float64(posting)/float64(posted), "ns/post")
}
