package netbench

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A message without payload is one Send of exactly n bytes: a Batch with as many
// items as fit, and a Member whose address takes up the rest, and which so ends
// every message. These are frames that schedulers send.
//
// A message with payload is an Output, as backends send it.
//
// Leave says whether messages from then on are to be answered (Epoch 1) or only
// taken (0). It is itself answered, so that its sender knows that all before it came.

// control builds a message of n bytes.
func control(n int) ([]byte, error) {
	var none wire.Batch
	one := wire.Batch{Items: make([]wire.BatchItem, 1)}
	empty := len(none.Append(nil))
	item := len(one.Append(nil)) - empty
	least := len((&wire.Member{}).Append(nil))
	var out []byte
	if items := (n - empty - least) / item; items > 0 {
		b := wire.Batch{Items: make([]wire.BatchItem, min(items, wire.BatchMax))}
		out = b.Append(out)
	}
	m := wire.Member{Address: strings.Repeat("x", max(0, min(128, n-len(out)-least)))}
	if out = m.Append(out); len(out) != n {
		return nil, fmt.Errorf("a message of %d bytes cannot be built: the nearest has %d", n, len(out))
	}
	return out, nil
}

// quiet and loud are the two Leaves.
func quiet() []byte { return (&wire.Leave{Epoch: 0}).Append(nil) }
func loud() []byte  { return (&wire.Leave{Epoch: 1}).Append(nil) }

// stamp marks a payload at both ends; stamped looks for it.
func stamp(b []byte, v uint64) {
	binary.LittleEndian.PutUint64(b, v)
	binary.LittleEndian.PutUint64(b[len(b)-8:], v)
}

func stamped(b []byte, v uint64) bool {
	return len(b) >= 8 && binary.LittleEndian.Uint64(b) == v && binary.LittleEndian.Uint64(b[len(b)-8:]) == v
}

// echo is the server's handler: it answers each message with one of the same size.
type echo struct {
	memory transport.Allocator

	// Owned by the link's receiving goroutine.
	mute    bool
	got     int            // bytes of the message that is coming in
	answers map[int][]byte // by size
	in      []byte         // where the payload that is coming lies
}

// Buffer implements transport.Handler.
func (e *echo) Buffer(_ transport.Link, _ wire.Kind, _ []byte, n int) []byte {
	e.in = e.memory.Alloc(n)
	return e.in
}

// Receive implements transport.Handler.
func (e *echo) Receive(l transport.Link, f transport.Frame) {
	e.got += wire.HeaderSize + len(f.Body)
	switch f.Kind {
	case wire.KindLeave:
		var m wire.Leave
		if m.Decode(f.Body) == nil {
			e.mute = m.Epoch == 0
			refused(l, l.Send(m.Append(nil)))
		}
		e.got = 0
	case wire.KindMember:
		if !e.mute {
			refused(l, l.Send(e.answer(e.got)))
		}
		e.got = 0
	case wire.KindOutput:
		in := e.in
		e.in, e.got = nil, 0
		refused(l, l.SendPayload((&wire.Output{}).Append(nil, len(in)), in, func() { e.memory.Free(in) }))
	}
}

// refused ends a link that did not take an answer: its client asked for more of them than it
// takes, and would wait for this one for ever.
func refused(l transport.Link, err error) {
	if err != nil {
		l.Close(err)
	}
}

func (e *echo) answer(n int) []byte {
	if e.answers[n] == nil {
		e.answers[n], _ = control(n) // one of that size came, so it can be built
	}
	return e.answers[n]
}

// Closed implements transport.Handler.
func (e *echo) Closed(transport.Link, error) {}
