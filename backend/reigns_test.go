package backend

import (
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// sink is a link that takes all.
type sink struct{ transport.Link }

func (sink) Peer() wire.Hello  { return wire.Hello{Incarnation: 1} }
func (sink) Shift() mono.Dur   { return 0 }
func (sink) Send([]byte) error { return nil }

// Neither a report nor an order that is ignored allocates.
func TestReignsDoNotAllocate(t *testing.T) {
	b := &Backend{}
	b.members = newMembers(b)
	b.reigns.b, b.uplinks = b, newUplinks(b, []string{"inproc:a", "inproc:b"})
	var err error
	if b.metrics, err = newMetrics(b, nil); err != nil {
		t.Fatal(err)
	}
	u, spare := b.uplinks[0], b.uplinks[1]
	var l transport.Link = sink{}
	u.link.Store(&l)
	b.reigns.up(u, l, 1)
	b.reigns.promise(u, wire.Promise{Epoch: 7})
	if u.reign.Load() != 7 || spare.reign.Load() != 0 {
		t.Fatalf("obeyed in reign %d, and %d", u.reign.Load(), spare.reign.Load())
	}
	d := wire.Done{Epoch: 6, Batch: 1}
	frame := (&wire.Batch{Epoch: 7, Batch: 1, Latest: mono.Never, Items: []wire.BatchItem{{Request: 1}}}).Append(nil)
	body := frame[wire.HeaderSize:]
	if n := testing.AllocsPerRun(1000, func() {
		b.Report(&d)
		if err := spare.onBatch(l, body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
