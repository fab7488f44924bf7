package rdmae2e

import (
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// The peer of a READ takes no part in it: of a process that stands still 1,000
// inputs of 150 KB come, and none of its threads has used any time for them.
func TestReadsTakeNoTimeOfThePeer(t *testing.T) {
	need(t)
	const rounds, count, size = 10, 100, 150_000
	p := startPeer(t, setting{Silence: 60 * mono.Second, Arena: 32 << 20})
	objects := p.tell(order{Do: "stock", Count: count, Size: size}).Objects
	r := newReader(t)
	r.dial(p, 60*mono.Second)
	p.freeze()
	_, before := threads(t, p.pid())
	var y tally
	begin := time.Now()
	for range rounds {
		r.read(objects, &y)
	}
	took := time.Since(begin)
	states, after := threads(t, p.pid())
	st := r.net.Stats()
	say("from a stopped process (threads in state %s): %d READs of %d bytes in %v, %d bytes by RDMA, %d by TCP", states, y.right, size, took.Round(time.Millisecond), st.ReadBytesRDMA, st.ReadBytesTCP)
	say("its threads' CPU time, in ticks: %d before, %d after", sum(before), sum(after))
	if y.right != rounds*count || y.total() != y.right || st.ReadsRDMA != rounds*count || st.ReadBytesRDMA != rounds*count*size || st.ReadsTCP != 0 {
		t.Errorf("%v; %+v", &y, st)
	}
	if !maps.Equal(before, after) {
		t.Errorf("the peer's threads have used time: %v, before %v", after, before)
	}
	p.signal(syscall.SIGCONT)
	p.tell(order{Do: "received"}) // it lives, and has lost nothing
	r.hangUp()
	p.leave()
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
