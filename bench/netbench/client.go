package netbench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ErrWrongBytes: a READ or a message brought other bytes than it must.
var ErrWrongBytes = errors.New("wrong bytes")

// client is one way's end at the client: a link to each server.
type client struct {
	way     Way
	memory  transport.Allocator
	links   []transport.Link
	objects []object
	first   []int // of each link in objects, and one more for the end

	ops    []transport.ReadOp // one for each object, in order
	landed chan struct{}      // the last READ of a round is there
	left   atomic.Int64       // READs of the round

	pong     chan pong     // answers to messages; capacity 1: one is asked for at a time
	released chan struct{} // the payload of a message may change
	dead     chan error    // links that ended
	in, out  []byte        // payloads
	serial   uint64
}

// object is a READ's destination and how it went. start is the measuring
// goroutine's; end and err are Done's, until landed.
type object struct {
	Object
	dst        []byte
	start, end mono.Time
	err        error
}

// pong is an answer.
type pong struct {
	at   mono.Time
	kind wire.Kind
	size int  // of the whole message
	good bool // of a payload
}

// connect dials all servers by one way.
func connect(ctx context.Context, w Way, offers []Offer) (*client, error) {
	c := &client{way: w, memory: transport.BuffersOf(w.Network), landed: make(chan struct{}, 1),
		pong: make(chan pong, 1), released: make(chan struct{}, 1), dead: make(chan error, len(offers))}
	c.in, c.out = c.memory.Alloc(payloadMost()), c.memory.Alloc(payloadMost())
	for i, o := range offers {
		if err := c.dial(ctx, o); err != nil {
			c.close()
			return nil, fmt.Errorf("%s to server %d: %w", w.Name, i, err)
		}
	}
	c.first = append(c.first, len(c.objects))
	for i := range c.objects {
		o := &c.objects[i]
		c.ops = append(c.ops, transport.ReadOp{Request: o.Request, Input: o.Input, Dst: o.dst, Done: c.done, Token: uint64(i)})
	}
	return c, nil
}

func (c *client) dial(ctx context.Context, o Offer) error {
	for _, w := range o.Ways {
		if w.Name != c.way.Name {
			continue
		}
		l, err := c.way.Network.Dial(ctx, w.Address, linkOptions(wire.RoleBackend, "bench-net"), &listening{c: c})
		if err != nil {
			return err
		}
		c.links, c.first = append(c.links, l), append(c.first, len(c.objects))
		for _, ob := range w.Objects {
			c.objects = append(c.objects, object{Object: ob, dst: c.memory.Alloc(int(ob.Input.Length))})
		}
		return nil
	}
	return errors.New("it does not offer this way")
}

// close ends the links, waits until they are over, and gives the memory back.
func (c *client) close() {
	for _, l := range c.links {
		l.Close(nil)
	}
	for range c.links {
		<-c.dead
	}
	for i := range c.objects {
		c.memory.Free(c.objects[i].dst)
	}
	c.memory.Free(c.in)
	c.memory.Free(c.out)
}

// lost is the error of a link that ended in the middle.
func (c *client) lost(err error) error {
	c.dead <- err // for close
	return fmt.Errorf("%s: a link to a server ended: %w", c.way.Name, err)
}

// listening is a link's handler.
type listening struct {
	c   *client
	got int // bytes of the message that is coming in
}

// Buffer implements transport.Handler.
func (h *listening) Buffer(_ transport.Link, _ wire.Kind, _ []byte, n int) []byte {
	return h.c.in[:min(n, len(h.c.in))]
}

// Receive implements transport.Handler.
func (h *listening) Receive(_ transport.Link, f transport.Frame) {
	h.got += wire.HeaderSize + len(f.Body) + len(f.Payload)
	if f.Kind == wire.KindBatch {
		return // the Member comes behind it
	}
	p := pong{at: mono.Now(), kind: f.Kind, size: h.got, good: f.Kind != wire.KindOutput || stamped(f.Payload, h.c.serial)}
	h.got = 0
	select {
	case h.c.pong <- p:
	default: // nobody asked: who waits for another will find this one
	}
}

// Closed implements transport.Handler.
func (h *listening) Closed(_ transport.Link, err error) { h.c.dead <- err }
