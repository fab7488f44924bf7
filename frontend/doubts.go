package frontend

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/frontend/suspects"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// doubtsFor is for how long after its last failure a model's requests are looked at.
	doubtsFor = 30 * mono.Second
	// strongOpen is how many strong suspects of a model may be open at a time. Others are refused here.
	strongOpen = 4
	// heldFor is how long such a refusal is held back: a client that tries again at once must not spin. At most heldMost are.
	heldFor, heldMost = 100 * mono.Millisecond, 256
	// printMost is the largest input that is known again: larger ones take too long to hash.
	printMost = 1 << 20
)

// doubts are what is known of a model's requests that failed. While none has failed lately they cost a look at until.
type doubts struct {
	until atomic.Int64 // an instant; 0: none has failed lately
	open  atomic.Int64 // strong suspects that are under way
	seed  maphash.Seed // Immutable once until is set.

	mu    sync.Mutex      // Guards what follows.
	table *suspects.Table // nil: none has failed lately
}

// graded is what a call keeps of its grade.
type graded struct {
	keys     suspects.Keys
	grade    wire.Suspicion
	looked   bool // it was graded
	stranger bool
	in       *doubts // whose open counts it; nil: none's. The call's model may be another by its end (follow.go)
	held     bool    // it is refused, and the answer is held back
}

// grade looks at a request before it is sent; false: it is to be refused.
func (d *doubts) grade(source uint64, input []byte) (g graded, ok bool) {
	g.keys.Source = source
	until := d.until.Load()
	if until == 0 {
		return g, true
	}
	now := mono.Now()
	if now > mono.Time(until) {
		d.end(now)
		return g, true
	}
	if len(input) <= printMost {
		g.keys.Input = max(1, maphash.Bytes(d.seed, input))
	}
	d.mu.Lock()
	if d.table != nil {
		g.looked = true
		g.grade, g.stranger = d.table.Grade(now, g.keys)
	}
	d.mu.Unlock()
	if g.grade < wire.SuspicionStrong {
		return g, true
	}
	if d.open.Add(1) > strongOpen {
		d.open.Add(-1)
		return g, false
	}
	g.in = d
	return g, true
}

// end forgets everything, where nothing has failed lately.
func (d *doubts) end(now mono.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now > mono.Time(d.until.Load()) {
		d.until.Store(0)
		d.table = nil
	}
}

// failed takes a request on which the model failed alone.
func (d *doubts) failed(g *graded) {
	now := mono.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		d.table = new(suspects.Table)
		if d.seed == (maphash.Seed{}) {
			d.seed = maphash.MakeSeed()
		}
	}
	d.table.Failed(now, g.keys, g.stranger)
	d.until.Store(int64(now.Add(doubtsFor)))
}

// served takes a request that was looked at and served.
func (d *doubts) served(g *graded) {
	if !g.looked {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table != nil {
		d.table.Served(mono.Now(), g.keys, g.stranger)
	}
}

// leave counts a call out that has its answer.
func (g *graded) leave() {
	if g.in != nil {
		g.in.open.Add(-1)
		g.in = nil
	}
}

// isolate refuses a call that was not sent. Its answer is held back for a moment.
func (c *Client) isolate(k *call) {
	c.arena.Free(k.slab)
	k.slab, k.submitted = 0, 0 // a scheduler that takes over is not sent it
	if c.held.Add(1) <= heldMost {
		k.held = true
		k.deadline = min(k.deadline, mono.Now().Add(heldFor))
		if id, ok := c.register(k); ok && c.stopped() { // where it is not ok it has answered
			c.fail(id, wire.ReasonDraining) // Close may have answered all that are open, and nothing expires any more
		}
		return
	}
	c.held.Add(-1)
	c.answerError(k, wire.ReasonIsolated, 0)
}

// letGo is for a call that ends, or never began.
func (c *Client) letGo(k *call) {
	k.leave()
	if k.held {
		c.held.Add(-1)
	}
}

// failedAlone answers a call on which the model failed alone, with the model's words.
func (c *Client) failedAlone(k *call, id wire.RequestID, text []byte) {
	k.model.metrics.doubts.failed(&k.graded)
	err := reasonError(k.model.entry.Spec.Name, wire.ReasonExecution)
	err.Frontend, err.Request = k.frontend(), id
	err.Msg = "the model fails on this request alone"
	if n := min(len(text), wire.ErrorTextMax); n > 0 {
		err.Msg += ": " + strings.ToValidUTF8(string(text[:n]), "?")
	}
	k.model.metrics.count(err)
	k.done(nil, err)
}
