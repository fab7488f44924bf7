package executor

import (
	"errors"
	"slices"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fetch READs all inputs into the order's buffer, all frontends in parallel.
func (o *order) fetch(m *Model) {
	n := len(o.Items)
	o.reasons, o.refused = grow(o.reasons, n), grow(o.refused, n)
	o.batch.Inputs = grow(o.batch.Inputs, n)
	total, wrong, size := 0, 0, 0 // size: of the last wrong one
	for i := range o.Items {
		o.reasons[i], o.refused[i] = wire.ReasonNone, false
		if n := int(o.Items[i].Input.Length); n > m.InputMax || m.InputSize >= 0 && n != m.InputSize {
			o.reasons[i], o.refused[i] = wire.ReasonInput, true
			o.Items[i].Input.Length = 0
			wrong, size = wrong+1, n
		}
		total += int(o.Items[i].Input.Length)
	}
	if wrong > 0 {
		o.exec.failed(&Failure{Cause: CauseInput, Order: &o.Order, Requests: wrong, Got: size, Want: m.InputMax})
	}
	o.in = o.exec.buffer(o.in, total)
	at := 0
	for i := range o.Items {
		end := at + int(o.Items[i].Input.Length)
		o.batch.Inputs[i] = o.in[at:end:end]
		at = end
	}
	o.mu.Lock()
	o.reading = n + 1
	o.mu.Unlock()
	o.issue()
	o.readEnded() // the one for the issuing
}

// issue sends one Read per frontend with all of its items.
func (o *order) issue() {
	for i := range o.Items {
		if o.refused[i] {
			o.readEnded()
			continue
		}
		if o.asked(i) {
			continue
		}
		o.ops = o.ops[:0]
		for j := i; j < len(o.Items); j++ {
			if it := &o.Items[j]; it.Frontend == o.Items[i].Frontend && !o.refused[j] {
				o.ops = append(o.ops, transport.ReadOp{Request: it.Request, Input: it.Input, Dst: o.batch.Inputs[j], Done: o.done, Token: uint64(j)})
			}
		}
		l := o.exec.linksOf(&o.Order).Link(o.Items[i].Frontend)
		if l == nil {
			o.readWhenUp(o.Items[i].Frontend, slices.Clone(o.ops))
			continue
		}
		_ = l.Read(o.ops) // every op's Done is called in either case
	}
}

// readWhenUp sends the Read as soon as the frontend's first link is up, or fails it:
// a frontend that has just come may send its first request, and get a device for it,
// while the backend still dials. It waits only as long as the batch can still be run
// in time for all: the others of it have deadlines, too.
func (o *order) readWhenUp(id wire.FrontendID, ops []transport.ReadOp) {
	due := mono.Never
	for i := range o.Items {
		due = min(due, o.Items[i].Deadline)
	}
	left := due.Sub(mono.Now()) - o.Until.Sub(o.Exec)
	o.exec.linksOf(&o.Order).AwaitFirst(id, left, func(l transport.Link) {
		if l != nil {
			_ = l.Read(ops)
			return
		}
		for i := range ops {
			o.readDone(ops[i].Token, transport.ErrClosed)
		}
	})
}

// asked reports whether an earlier item had the same frontend: its inputs
// were asked for with that one.
func (o *order) asked(i int) bool {
	for j := range i {
		if o.Items[j].Frontend == o.Items[i].Frontend && !o.refused[j] {
			return true
		}
	}
	return false
}

// readDone is every op's Done.
func (o *order) readDone(token uint64, err error) {
	if err != nil {
		reason := wire.ReasonUnavailable // no link to the frontend
		if errors.Is(err, transport.ErrStale) {
			reason = wire.ReasonInput
		}
		o.reasons[token] = reason // each token is one goroutine's at a time
	}
	o.readEnded()
}

// readEnded counts; the last one makes the order ready.
func (o *order) readEnded() {
	o.mu.Lock()
	o.reading--
	last, dropped := o.reading == 0, o.dropped
	if last {
		o.ready = mono.Now()
	}
	o.mu.Unlock()
	switch {
	case last && dropped:
		o.recycle()
	case last:
		o.exec.start()
	}
}

func (o *order) isReady() bool { return o.readyAt() != 0 }

// prepare closes the gaps that failed items left and lays out the outputs;
// false when no item is left.
func (o *order) prepare(m *Model) bool {
	now := mono.Now()
	o.index = o.index[:0]
	at := 0
	for i := range o.Items {
		if o.reasons[i] == wire.ReasonNone && o.Items[i].Deadline < now {
			o.reasons[i] = wire.ReasonDeadline
		}
		if o.reasons[i] != wire.ReasonNone {
			continue
		}
		in := o.batch.Inputs[i]
		if k := len(o.index); k != i {
			in = o.in[at : at+copy(o.in[at:], in)]
			o.batch.Inputs[k] = in
		}
		at += len(in)
		o.index = append(o.index, i)
	}
	n := len(o.index)
	o.batch.Model, o.batch.Size = o.ModelIndex, n
	o.batch.Input, o.batch.Inputs = o.in[:at], o.batch.Inputs[:n]
	o.out = o.exec.buffer(o.out, n*m.OutputSize)
	o.batch.Output = o.out
	o.batch.Outputs = grow(o.batch.Outputs, n)
	for k := range n {
		o.batch.Outputs[k] = o.out[k*m.OutputSize : (k+1)*m.OutputSize : (k+1)*m.OutputSize]
	}
	if n > 1 {
		o.arrange()
	}
	return n > 0
}

// buffer returns n bytes of the network's memory, b itself when it is large enough.
func (e *Executor) buffer(b []byte, n int) []byte {
	if cap(b) < n {
		e.memory.Free(b)
		return e.memory.Alloc(n)
	}
	return b[:n]
}

// free gives the buffers of an order that is over back.
func (o *order) free() {
	o.exec.memory.Free(o.in)
	o.exec.memory.Free(o.out)
	o.in, o.out = nil, nil
}

// grow returns a slice of length n, reusing s when it is large enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
