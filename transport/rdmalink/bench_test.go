package rdmalink_test

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ways are what is compared: TCP's own links, the same below this package, and
// lanes over a device in software (which shows our own cost, not a device's).
func ways(b *testing.B) map[string]transport.Network {
	nic, err := rdma.Open(fakeverbs.New(fakeverbs.Config{}).Host("a"), rdma.Config{GIDIndex: -1})
	if err != nil {
		b.Fatal(err)
	}
	n := rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic})
	b.Cleanup(func() {
		if err := errors.Join(n.Close(), nic.Close()); err != nil {
			b.Error(err)
		}
	})
	return map[string]transport.Network{"tcp": tcp.New(), "without device": rdmalink.New(rdmalink.Config{TCP: tcp.New()}), "lane": n}
}

func each(b *testing.B, run func(*testing.B, transporttest.Place)) {
	for name, n := range ways(b) {
		b.Run(name, func(b *testing.B) { run(b, transporttest.Place{Network: n, Address: local}) })
	}
}

func BenchmarkOneWay(b *testing.B)    { each(b, transporttest.BenchOneWay) }
func BenchmarkPingPong(b *testing.B)  { each(b, transporttest.BenchPingPong) }
func BenchmarkReadBatch(b *testing.B) { each(b, transporttest.BenchReadBatch) }

// What a request costs on a lane does not allocate: frames, outputs, READs.
func TestLaneDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	slabs := transporttest.NewSlabs(8, 5000)
	j := join(t, rdmalink.Config{}, slabs)
	frame := (&wire.Answer{}).Append(nil)
	big := (&wire.Output{}).Append(nil, 20<<10)
	payload := j.buffers.Alloc(20 << 10)
	ops, wait := slabs.Batch()
	j.there.unchecked.Store(true)
	released := make(chan struct{}, 1)
	release := func() { released <- struct{}{} }
	round := func() {
		j.link.Send(frame)
		j.link.SendPayload(big, payload, release)
		<-released
		j.link.Read(ops)
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	for range 1000 { // rings and tables have grown by then
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0.1 { // heartbeats and timers of the test itself
		t.Errorf("%v allocations a round", n)
	}
}
