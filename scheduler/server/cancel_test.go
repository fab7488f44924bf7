package server

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cancel takes a request back that was submitted with this deadline.
func (p *peer) cancel(id wire.RequestID, model wire.ModelID, deadline mono.Time) {
	m := wire.Cancel{Request: id, Model: model, Deadline: deadline}
	if err := p.link.Send(m.Append(nil)); err != nil {
		p.t.Error(err)
	}
}

// What a frontend cancels while it waits is in no batch, has no answer, and counts as cancelled; the
// counters add up.
func TestCancel(t *testing.T) {
	s, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 1, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	if f.link.Peer().Features&wire.FeatureCancel == 0 {
		t.Fatal("the scheduler does not say that it can be told of cancelled requests")
	}
	const requests = 200
	deadline := mono.Now().Add(2 * mono.Second) // until then they wait
	for id := wire.RequestID(1); id <= requests; id++ {
		m := wire.Submit{Request: id, Model: 0, Arrival: mono.Now(), Deadline: deadline.Add(mono.Dur(id))}
		if err := f.link.Send(m.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if id%2 == 0 {
			f.cancel(id, 0, m.Deadline)
		}
	}
	f.cancel(7, 99, deadline)   // no such model
	f.cancel(9999, 0, deadline) // no such request
	look := func() counted { return s.count(0).look() }
	f.wait("the end of all", func() bool { c := look(); return c.came == requests && c.waiting() == 0 })
	c := look()
	if c.cancelled == 0 || c.came != c.served+c.late+c.dropped+c.cancelled {
		t.Errorf("counted %+v", c)
	}
	b.mu.Lock()
	ran := len(b.answers)
	b.mu.Unlock()
	if uint64(ran) != c.served+c.late {
		t.Errorf("%d ran of %d, counted %+v", ran, requests, c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, why := range f.answers {
		if id%2 == 0 && why[0] == wire.ReasonCancelled || f.closed != nil {
			t.Errorf("the frontend has the answer %v to request %d; closed: %v", why, id, f.closed)
		}
	}
}

// What waits at the door, or for a batch that runs for another leader, leaves from there.
func TestCancelWhatIsHeld(t *testing.T) {
	var d door
	p, f, other := &pool{}, &frontend{instance: 1}, &frontend{instance: 2}
	for i := wire.RequestID(1); i <= 3; i++ {
		d.keeps(p, f, &wire.Submit{Request: i})
	}
	d.keeps(p, other, &wire.Submit{Request: 2})
	if !d.cancel(f, 2) || d.cancel(f, 2) || d.waiting.Load() != 3 || len(d.of[p]) != 3 {
		t.Errorf("%d wait at the door: %+v", d.waiting.Load(), d.of[p])
	}
	d.cancel(f, 1)
	d.cancel(f, 3)
	if !d.cancel(other, 2) || len(d.of) != 0 || d.waiting.Load() != 0 {
		t.Errorf("%d wait at the door: %+v", d.waiting.Load(), d.of)
	}
	h := newHeld(&Past{})
	h.runs(0, 1, &wire.Running{Epoch: 1, Batch: 1, Until: mono.Now().Add(3600 * mono.Second), Items: []wire.RunningItem{{Instance: 1, Request: 5}}}, func([]heldSubmit) {})
	defer h.close()
	if !h.take(f, &wire.Submit{Request: 5}) || h.cancel(other, 5) || !h.cancel(f, 5) || h.cancel(f, 5) || h.waiting.Load() != 0 {
		t.Errorf("%d are held", h.waiting.Load())
	}
	if left := h.end(heldKey{1, 1, 1}); len(left) != 0 || h.waiting.Load() != 0 {
		t.Errorf("%+v were held, %d counted", left, h.waiting.Load())
	}
}
