package executor

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// finish is the batch's Finish: the device is free, outputs and report leave.
// The next batch is launched first: the device waits for nobody.
func (o *order) finish(start, end mono.Time, err error) {
	e := o.exec
	e.mu.Lock()
	e.running = nil
	e.mu.Unlock()
	e.start()

	o.report = wire.Done{Epoch: o.Epoch, Batch: o.Batch.Batch, Ready: o.ready, Start: start, End: end, Fetch: o.ready.Sub(o.Arrived)}
	if err != nil {
		for _, i := range o.index {
			o.reasons[i] = wire.ReasonExecution
		}
		o.report.Reason = wire.ReasonExecution
		o.index = o.index[:0]
	}
	o.mu.Lock()
	o.holding = len(o.index) + 1
	o.mu.Unlock()
	o.report.Ran = uint16(len(o.index))
	o.report.Failed = uint16(len(o.Items) - len(o.index))
	e.report.Report(&o.report) // before the outputs: the scheduler plans with it
	o.sendOutputs(start, end)
	o.sendReasons()
	if e.obs.Ran != nil && len(o.index) > 0 {
		e.obs.Ran(o.GPU, o.ModelIndex, len(o.index), o.report.Fetch, end.Sub(start))
	}
	o.release()
}

func (o *order) sendOutputs(start, end mono.Time) {
	m := wire.Output{BatchSize: uint16(len(o.index)), Device: o.GPU, Fetch: o.report.Fetch, Execute: end.Sub(start), Start: start}
	for k, i := range o.index {
		it := &o.Items[i]
		l := o.exec.links.Link(it.Frontend)
		if l == nil {
			o.exec.unreached(&o.Order)
			o.release()
			continue
		}
		m.Request = it.Request
		out := o.batch.Outputs[k]
		o.frame = m.Append(o.frame[:0], len(out))
		_ = l.SendPayload(o.frame, out, o.release) // lost: the frontend expires it, or is gone
	}
}

func (o *order) sendReasons() {
	for i := range o.Items {
		switch o.reasons[i] {
		case wire.ReasonNone:
			continue
		case wire.ReasonInput:
			if o.exec.obs.Stale != nil {
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
	e := o.exec
	e.mu.Lock()
	keep := len(e.spare) < 2*ordersMax && !e.closed
	if keep {
		e.spare = append(e.spare, o)
	}
	e.mu.Unlock()
	if !keep {
		o.free()
	}
}
