package transporttest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func none(err error) bool { return err == nil }

func is(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

// Many READs of all sizes in parallel: each brings its own bytes to its own
// place, and every pin is given back.
func testReads(t *testing.T, f Fixture) {
	const rounds, each = 40, 25
	slabs := NewSlabs(rounds*each, 1, 256, 16<<10, 16<<10+1, 150<<10, 3)
	p := connect(t, f, func(d, l *transport.Options) { l.Slabs = slabs }, nil)
	r := newResults()
	var all []transport.ReadOp
	for range rounds {
		var ops []transport.ReadOp
		for range each {
			ops = append(ops, r.op(slabs, len(all)+len(ops)))
		}
		all = append(all, ops...)
		if err := p.link.Read(ops); err != nil {
			t.Fatal(err)
		}
		sendAll(t, p.link, answer(uint64(len(all))))
	}
	r.check(t, len(all), none)
	for i, op := range all {
		if !bytes.Equal(op.Dst, slabs.data[op.Input.Handle]) {
			t.Fatalf("READ %d of %d bytes brought something else", i, len(op.Dst))
		}
	}
	Until(t, "the frames between", func() bool { return p.accepted.Count() == rounds })
	slabs.Settle(t)
	if err := p.link.Read(nil); err != nil {
		t.Errorf("no READs at all: %v", err)
	}
}

// A freed slab, another request's or another length is ErrStale and nothing
// else is disturbed.
func testStaleReads(t *testing.T, f Fixture) {
	slabs := NewSlabs(4, 1000, 100<<10)
	p := connect(t, f, func(d, l *transport.Options) { l.Slabs = slabs }, nil)
	bad, good := newResults(), newResults()
	freed, foreign, short := bad.op(slabs, 0), bad.op(slabs, 1), bad.op(slabs, 2)
	freed.Input.Handle = wire.MakeSlabHandle(0, 2)
	foreign.Request = 77
	short.Input.Length, short.Dst = 999, short.Dst[:999]
	if err := p.link.Read([]transport.ReadOp{freed, good.op(slabs, 1), foreign, short, good.op(slabs, 2)}); err != nil {
		t.Fatal(err)
	}
	bad.check(t, 3, is(transport.ErrStale))
	good.check(t, 2, none)
	slabs.Settle(t)
	mismatch := newResults()
	op := mismatch.op(slabs, 3)
	op.Dst = op.Dst[1:]
	if err := p.link.Read([]transport.ReadOp{op}); !errors.Is(err, transport.ErrProtocol) {
		t.Errorf("a Dst of another length than the input: %v", err)
	}
	mismatch.check(t, 1, is(transport.ErrProtocol))
}

// A side without slabs refuses.
func testReadsRefused(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	r := newResults()
	if err := p.link.Read([]transport.ReadOp{r.op(NewSlabs(1, 64), 0)}); err != nil {
		t.Fatal(err)
	}
	r.check(t, 1, is(transport.ErrRejected))
	sendAll(t, p.link, answer(1))
	Until(t, "a frame after it", func() bool { return p.accepted.Count() == 1 })
}

// READs are bounded: all or none of a call are sent.
func testReadsFull(t *testing.T, f Fixture) {
	slabs := NewSlabs(64, 100)
	p := connect(t, f, func(d, l *transport.Options) { l.Slabs, d.ReadsMax = slabs, 8 }, nil)
	r := newResults()
	var ops []transport.ReadOp
	for i := range 9 {
		ops = append(ops, r.op(slabs, i))
	}
	if err := p.link.Read(ops); !errors.Is(err, transport.ErrFull) {
		t.Errorf("9 READs where 8 are allowed: %v", err)
	}
	r.check(t, 9, is(transport.ErrFull))
	// The places come back, so the table can be used for ever.
	for round := range 50 {
		r := newResults()
		if err := p.link.Read([]transport.ReadOp{r.op(slabs, round), r.op(slabs, (round+1)%64), r.op(slabs, (round+2)%64)}); err != nil {
			t.Fatal(err)
		}
		r.check(t, 3, none)
	}
	slabs.Settle(t)
}

// READs that are open when the link dies, and those that come later, all end.
func testReadsDeadLink(t *testing.T, f Fixture) {
	slabs := NewSlabs(100, 4096)
	cable := f.Cable
	var c Cable
	p := connect(t, f, func(d, l *transport.Options) {
		l.Slabs = slabs
		quick(d)
		quick(l)
	}, func(t *testing.T, a string) string { c = cable(t, a); return c.Address() })
	c.Freeze()
	r := newResults()
	var ops []transport.ReadOp
	for i := range 50 {
		ops = append(ops, r.op(slabs, i))
	}
	if err := p.link.Read(ops); err != nil {
		t.Fatal(err)
	}
	r.check(t, 50, is(transport.ErrClosed))
	p.dialled.AwaitClosed(t)
	late := newResults()
	if err := p.link.Read([]transport.ReadOp{late.op(slabs, 60)}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("READ on a dead link: %v", err)
	}
	late.check(t, 1, is(transport.ErrClosed))
	p.accepted.AwaitClosed(t)
	slabs.Settle(t)
}

// Both sides READ from each other at once, more than any buffer holds: neither
// may wait for the other to read first.
func testReadsBothWays(t *testing.T, f Fixture) {
	const count, size = 200, 256 << 10
	here, there := NewSlabs(count, size), NewSlabs(count, size)
	p := connect(t, f, func(d, l *transport.Options) { d.Slabs, l.Slabs = here, there }, nil)
	back := p.back(t)
	a, b := newResults(), newResults()
	var out, home []transport.ReadOp
	for i := range count {
		out, home = append(out, a.op(there, i)), append(home, b.op(here, i))
	}
	if err := errors.Join(p.link.Read(out), back.Read(home)); err != nil {
		t.Fatal(err)
	}
	a.check(t, count, none)
	b.check(t, count, none)
	here.Settle(t)
	there.Settle(t)
}

// quick makes an end notice silence soon.
func quick(o *transport.Options) {
	o.Heartbeat, o.Silence = 20*mono.Millisecond, 300*mono.Millisecond
}
