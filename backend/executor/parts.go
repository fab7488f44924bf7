package executor

import (
	"errors"

	"github.com/symphony-serving/symphony/backend/rerun"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// parts are those of an order of which a run has failed, or that has suspects beside others (package rerun). The order
// stays launched until its last part has ended: it keeps the device and its weights, and its report comes last. The
// outputs of each part that runs well leave at once.
type parts struct {
	on   bool // the order runs in parts; what follows holds then
	next bool // a part is to be launched; guarded by the executor's mu

	runs    rerun.Runs
	whole   []int    // the item at each position, of all that were launched
	inputs  [][]byte // by position
	outputs [][]byte // likewise
	offsets []int    // of inputs in the order's buffer
	served  []bool   // by item

	start         mono.Time // of the first run; 0: none has ended
	begun, failed int       // runs
	ran           int       // requests that ran well
	isolated      int       // requests
	errors        map[int]string
	err           error // the last one
}

// Parted is what became of a batch that ran in parts; valid during the call.
type Parted struct {
	Order  *Order
	Runs   int // in all
	Failed int // runs
	Ran    int // requests that ran well
	Alone  int // requests that failed alone
}

// rerunsFor is the least span after its planned end in which an order begins runs; it is twice the order's planned
// length where that is longer. Its scheduler waits longer for a report (scheduler/server, overdue.go).
const rerunsFor = 500 * mono.Millisecond

// arrange parts suspects from the others before the first run.
func (o *order) arrange() {
	var c rerun.Counts
	for _, i := range o.index {
		c[o.Items[i].Suspicion]++
	}
	if c[wire.SuspicionNone] == len(o.index) || !o.sameSize() {
		return
	}
	o.openParts()
	o.sortParts()
	o.exec.mu.Lock()
	defer o.exec.mu.Unlock()
	o.beginLocked(c)
	o.cutLocked()
}

// sameSize reports whether all inputs have the same length: then they can change places.
func (o *order) sameSize() bool {
	for _, in := range o.batch.Inputs {
		if len(in) != len(o.batch.Inputs[0]) {
			return false
		}
	}
	return true
}

// openParts notes the batch as it was prepared.
func (o *order) openParts() {
	p := &o.parts
	*p = parts{on: true, runs: p.runs, whole: append(p.whole[:0], o.index...), inputs: append(p.inputs[:0], o.batch.Inputs...),
		outputs: append(p.outputs[:0], o.batch.Outputs...), offsets: append(p.offsets[:0], 0), served: grow(p.served, len(o.Items)), errors: p.errors}
	clear(p.served)
	clear(p.errors)
	for i, in := range p.inputs {
		p.offsets = append(p.offsets, p.offsets[i]+len(in))
	}
	o.mu.Lock()
	o.holding = 1 // the order's own; each output that leaves is one more
	o.mu.Unlock()
}

// sortParts puts suspects behind the others.
func (o *order) sortParts() {
	p, at := &o.parts, 0
	for s := wire.SuspicionNone; s < wire.SuspicionStrong; s++ {
		for k := at; k < len(p.whole); k++ {
			if o.Items[p.whole[k]].Suspicion != s {
				continue
			}
			if k != at {
				p.whole[at], p.whole[k] = p.whole[k], p.whole[at]
				swap(p.inputs[at], p.inputs[k])
			}
			at++
		}
	}
}

// swap exchanges the bytes of two inputs.
func swap(a, b []byte) {
	var piece [4 << 10]byte
	for len(a) > 0 {
		n := copy(piece[:], a)
		copy(a[:n], b[:n])
		copy(b[:n], piece[:n])
		a, b = a[n:], b[n:]
	}
}

// beginLocked begins the runs of an order. Caller holds exec.mu.
func (o *order) beginLocked(c rerun.Counts) {
	e := o.exec
	for len(e.records) <= o.ModelIndex {
		e.records = append(e.records, new(rerun.Record))
	}
	e.troubled.Store(true)
	limit := o.Until.Add(max(rerunsFor, 2*o.Until.Sub(o.Exec)))
	o.parts.runs.Begin(mono.Now(), c, limit, &e.share, e.records[o.ModelIndex])
}

// cutLocked makes the next part the order's batch; false: there is none. Caller holds exec.mu.
func (o *order) cutLocked() bool {
	p := &o.parts
	for {
		now := mono.Now()
		part, verdict := p.runs.Next(now)
		items := p.whole[part.From:part.To]
		switch {
		case verdict == rerun.End:
			return false
		case verdict == rerun.Isolate:
			p.isolated += len(items)
			o.answerAll(items, wire.ReasonIsolated)
		case verdict == rerun.GiveUp:
			o.answerAll(items, wire.ReasonExecution)
		case p.begun > 0 && o.allExpired(items, now):
			o.answerAll(items, wire.ReasonDeadline)
		default:
			p.begun++
			o.cut(part)
			return true
		}
	}
}

// answerAll has items answered with a reason when the order is over.
func (o *order) answerAll(items []int, reason wire.Reason) {
	for _, i := range items {
		o.reasons[i] = reason
	}
}

func (o *order) allExpired(items []int, now mono.Time) bool {
	for _, i := range items {
		if o.Items[i].Deadline >= now {
			return false
		}
	}
	return true
}

// cut makes a part the order's batch.
func (o *order) cut(part rerun.Part) {
	p, b, size := &o.parts, &o.batch, o.model.OutputSize
	o.index = append(o.index[:0], p.whole[part.From:part.To]...)
	b.Size = part.Size()
	b.Input = o.in[p.offsets[part.From]:p.offsets[part.To]]
	b.Inputs = append(b.Inputs[:0], p.inputs[part.From:part.To]...)
	b.Output = o.out[part.From*size : part.To*size]
	b.Outputs = append(b.Outputs[:0], p.outputs[part.From:part.To]...)
}

// goesOn takes the end of a run of an order that runs in parts, or whose run has failed, and reports whether another run
// follows. If not, each item has its reason, unless the order counts no more.
func (o *order) goesOn(start, end mono.Time, err error) bool {
	e, p := o.exec, &o.parts
	if errors.Is(err, ErrLost) || errors.Is(err, ErrAstray) {
		return false
	}
	if !o.tookRun(start, end, err) {
		return false
	}
	if err == nil {
		o.leave(start, end)
	}
	e.mu.Lock()
	goesOn := o.cutLocked()
	if p.next = goesOn; goesOn {
		e.parted++
	}
	e.mu.Unlock()
	if goesOn { // p.next may be false again: another goroutine has launched the part
		e.start()
	}
	return goesOn
}

// tookRun notes how a run went; false: the order counts no more, or its weights went.
func (o *order) tookRun(start, end mono.Time, err error) bool {
	e, p := o.exec, &o.parts
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed { // its scheduler's link has ended, and the scheduler queues it again
		o.forgotten = true
	}
	if o.forgotten || e.chilledLocked(&o.Order) {
		return false
	}
	if !p.on { // it ran as a whole
		o.openParts()
		o.beginLocked(rerun.Counts{len(o.index)})
		o.cutLocked()
	}
	if p.start == 0 {
		p.start = start
	}
	alone := p.runs.Ended(mono.Now(), err == nil, end.Sub(start))
	if err != nil {
		p.failed++
		p.err = err
	}
	if alone {
		if p.errors == nil {
			p.errors = map[int]string{}
		}
		p.errors[o.index[0]] = plainText(err)
		o.reasons[o.index[0]] = wire.ReasonExecution
	}
	return true
}

// leave sends the outputs of a part that ran well.
func (o *order) leave(start, end mono.Time) {
	e, p := o.exec, &o.parts
	p.ran += len(o.index)
	for _, i := range o.index {
		p.served[i] = true
	}
	o.mu.Lock()
	o.holding += len(o.index)
	o.mu.Unlock()
	o.report = o.newReport(start, end)
	o.sendOutputs(start, end)
	if e.obs.Ran != nil {
		e.obs.Ran(o.GPU, o.ModelIndex, len(o.index), o.report.Fetch, end.Sub(start))
	}
}

// conclude gives the items that are still without an answer their reasons, and completes the report.
func (o *order) conclude(err error, chilled bool) {
	p, n := &o.parts, 0
	rest := wire.ReasonExecution
	if chilled {
		rest = wire.ReasonCold
	}
	for _, i := range p.whole {
		if o.reasons[i] == wire.ReasonNone && !p.served[i] {
			o.reasons[i] = rest
		}
		if o.reasons[i] == wire.ReasonExecution {
			n++
		}
	}
	if err != nil {
		p.err = err
	}
	e := o.exec
	if n > 0 {
		e.failed(&Failure{Cause: CauseDevice, Order: &o.Order, Requests: n, First: o.firstFailed(), Err: p.err})
	}
	if p.isolated > 0 {
		e.failed(&Failure{Cause: CauseIsolated, Order: &o.Order, Requests: p.isolated})
	}
	if e.obs.Parted != nil {
		e.obs.Parted(&Parted{Order: &o.Order, Runs: p.begun, Failed: p.failed, Ran: p.ran, Alone: len(p.errors)})
	}
	if p.start != 0 {
		o.report.Start = p.start
	}
	o.report.Flags |= wire.OutputParts
	if p.ran == 0 && n > 0 {
		o.report.Reason = wire.ReasonExecution
	}
	o.report.Ran, o.index = uint16(p.ran), o.index[:0]
	o.report.Failed = uint16(len(o.Items) - p.ran)
}

// firstFailed is one of the items that failed, alone if there is one.
func (o *order) firstFailed() (first *wire.BatchItem) {
	for i := range o.Items {
		if o.reasons[i] != wire.ReasonExecution {
			continue
		}
		if _, alone := o.parts.errors[i]; alone {
			return &o.Items[i]
		}
		if first == nil {
			first = &o.Items[i]
		}
	}
	return first
}

// partLocked takes an order out of which a part is to be launched; nil: there is none. Caller holds mu.
func (e *Executor) partLocked() *order {
	if e.parted == 0 {
		return nil
	}
	for _, o := range e.launched {
		if o.parts.next {
			o.parts.next = false
			e.parted--
			return o
		}
	}
	return nil
}

// ranWell notes a batch that ran well as a whole, while some have failed lately.
func (e *Executor) ranWell(slot int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slot < len(e.records) {
		e.records[slot].Served()
	}
}
