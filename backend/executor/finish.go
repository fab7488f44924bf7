package executor

import (
	"errors"
	"slices"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// finish is the batch's Finish: the device is free, outputs and report leave.
// The next batch is launched first: the device waits for nobody.
func (o *order) finish(start, end mono.Time, err error) {
	if (err != nil || o.parts.on) && o.goesOn(start, end, err) {
		return
	}
	e := o.exec
	counts, chilled := e.ended(o)
	e.start()
	if e.loader != nil {
		e.loader.step() // weights may have waited for its end to leave
	}
	o.astray = errors.Is(err, ErrAstray)
	switch {
	case counts && err == nil && len(o.index) > 0 && e.troubled.Load():
		e.ranWell(o.ModelIndex)
	case !counts && o.parts.on: // links may have outputs of it
		o.release()
		return
	case !counts:
		o.recycle()
		return
	}

	o.report = o.newReport(start, end)
	if o.parts.on && (o.parts.ran > 0 || !chilled) {
		o.conclude(err, chilled)
	} else {
		o.judge(err, chilled)
	}
	o.sendOutputs(start, end)
	o.tellUnsent()
	o.sendReasons()
	// The report comes last: the outputs have a deadline, and of a backend that dies in
	// between the scheduler queues the batch again; reported first, it would be done, and
	// its outputs lost.
	o.over.Store(true)
	e.report.Report(&o.report)
	if e.obs.Ran != nil && len(o.index) > 0 {
		e.obs.Ran(o.GPU, o.ModelIndex, len(o.index), o.report.Fetch, end.Sub(start))
	}
	o.release()
}

func (o *order) newReport(start, end mono.Time) wire.Done {
	d := wire.Done{Epoch: o.Epoch, Batch: o.Batch.Batch, Ready: o.ready, Start: start, End: end, Fetch: o.ready.Sub(o.Arrived)}
	if o.first {
		d.Flags = wire.OutputCold
	}
	if x := o.model.Exchange; x != nil {
		d.Flags |= wire.OutputFlags(x.Load())
	}
	return d
}

// judge says in the report what became of a batch that ran as a whole.
func (o *order) judge(err error, chilled bool) {
	e := o.exec
	if err != nil {
		e.failed(&Failure{Cause: CauseDevice, Order: &o.Order, Requests: len(o.index), Err: err})
		for _, i := range o.index {
			o.reasons[i] = wire.ReasonExecution
		}
		o.report.Reason = wire.ReasonExecution
		o.index = o.index[:0]
	}
	if chilled { // what it put out is not to be trusted, and nobody is answered
		o.report.Reason, o.index = wire.ReasonCold, o.index[:0]
		clear(o.reasons)
		e.returned(&o.Order, wire.ReasonCold)
	}
	o.mu.Lock()
	o.holding = len(o.index) + 1
	o.mu.Unlock()
	o.report.Ran = uint16(len(o.index))
	if !chilled {
		o.report.Failed = uint16(len(o.Items) - len(o.index))
	}
}

func (o *order) sendOutputs(start, end mono.Time) {
	m := wire.Output{BatchSize: uint16(len(o.index)), Device: o.GPU, Fetch: o.report.Fetch, Execute: end.Sub(start), Start: start,
		Epoch: o.Epoch, Batch: o.Batch.Batch, Ready: o.report.Ready, Model: o.Model, Flags: o.report.Flags}
	for k, i := range o.index {
		it := &o.Items[i]
		l := o.exec.linksOf(&o.Order).Link(it.Frontend)
		if l == nil {
			o.exec.unreached(&o.Order)
			o.release()
			continue
		}
		m.Request = it.Request
		out := o.batch.Outputs[k]
		if !o.exec.outputs.Direct(l, len(out)) {
			o.sendLater(l, i, k, &m)
			continue
		}
		o.frame = m.Append(o.frame[:0], len(out))
		g, gathers := l.(transport.Gatherer)
		var err error
		if gathers {
			err = g.PayloadLater(o.frame, out, o.sent)
		} else {
			err = l.SendPayload(o.frame, out, o.sent)
		}
		switch {
		case errors.Is(err, transport.ErrFull):
			o.hold() // the link has released it
			o.sendLater(l, i, k, &m)
			continue
		case err != nil:
			o.exec.unreached(&o.Order) // its frontend is gone
			continue
		}
		if n := len(o.flush); gathers && (n == 0 || o.flush[n-1] != g && !slices.Contains(o.flush, g)) {
			o.flush = append(o.flush, g)
		}
	}
	calm := len(o.flush) > 0
	for i, g := range o.flush {
		calm = g.Flush() && calm
		o.flush[i] = nil
	}
	o.flush = o.flush[:0]
	if calm {
		// The device runs its next batch: who receives the outputs goes before the rest.
		// (With much to do, that parts what would have shared a system call: half as long
		// again for each request, in batches of 4.)
		ring.Yield()
	}
}

func (o *order) sendReasons() {
	for i := range o.Items {
		switch o.reasons[i] {
		case wire.ReasonNone:
			continue
		case wire.ReasonExecution:
			if text, alone := o.parts.errors[i]; alone && o.parts.on {
				o.answerAlone(i, text)
				continue
			}
		case wire.ReasonInput:
			if o.exec.obs.Stale != nil && !o.refused[i] { // the refused ones have been told of
				o.exec.obs.Stale(o.ModelIndex)
			}
		}
		o.exec.answer(&o.Items[i], &o.Order, o.reasons[i])
	}
}

// release gives up one hold on the buffers; the last one makes the order a
// spare.
func (o *order) release() {
	o.mu.Lock()
	o.holding--
	last := o.holding == 0
	o.mu.Unlock()
	if !last {
		return
	}
	o.unreserve()
	if o.astray {
		o.in, o.out = nil, nil // not even freed: who got them would be written over
		o.astray = false       // its next buffers are others
	}
	e := o.exec
	e.mu.Lock()
	if i := slices.Index(e.finishing, o); i >= 0 {
		e.finishing = slices.Delete(e.finishing, i, i+1)
	}
	keep := len(e.spare) < 2*ordersMax && !e.closed && o.small(e.spare)
	if keep {
		e.spare = append(e.spare, o)
	}
	e.mu.Unlock()
	if !keep {
		o.free()
	}
}
