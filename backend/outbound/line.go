package outbound

import (
	"errors"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend/outbound/parts"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A line looks again after the span again where its link is full of what others sent: no call says when that has left.
// It looks after each sweep for outputs that have passed their deadline. An empty line is kept for the span keep.
const (
	again = time.Millisecond
	sweep = 20 * time.Millisecond
	keep  = time.Second
)

// line is what waits for a link.
type line struct {
	s    *Sender // Immutable, and so is link.
	link transport.Link

	mu      sync.Mutex // Guards what follows.
	queue   parts.Queue
	pieces  []*piece // by slot
	spare   []*piece
	timer   *time.Timer
	busy    bool   // it is counted in Sender.busy: outputs wait, or the link has some
	pumping bool   // a goroutine hands parts over
	more    bool   // the goroutine that pumps shall look again
	over    bool   // nothing is taken any more
	frame   []byte // of the goroutine that pumps
}

// piece is an output with a line.
type piece struct {
	Output
	line *line
	slot uint32
	sent func() // partLeft of a part, and of the last one; bound once
	last func()
}

func newLine(s *Sender, l transport.Link) *line {
	n := &line{s: s, link: l}
	n.timer = time.AfterFunc(keep, n.tick)
	return n
}

// add takes an output; false: the line has ended.
func (n *line) add(o *Output) bool {
	n.mu.Lock()
	if n.over {
		n.mu.Unlock()
		return false
	}
	taken := n.addLocked(o)
	n.mu.Unlock()
	if !taken {
		o.lost(CauseMany)
		o.release()
		return true
	}
	n.pump()
	return true
}

// addLocked is add, and reports whether there is a place. Caller holds mu.
func (n *line) addLocked(o *Output) bool {
	slot, ok := n.queue.Add(len(o.Data), o.Deadline)
	if !ok {
		return false
	}
	p := n.take()
	p.Output, p.slot = *o, slot
	for int(slot) >= len(n.pieces) {
		n.pieces = append(n.pieces, nil)
	}
	n.pieces[slot] = p
	if !n.busy {
		n.busy = true
		n.s.busy.Add(1)
		n.timer.Reset(sweep)
	}
	return true
}

func (o *Output) release() {
	if o.Release != nil {
		o.Release()
	}
}

func (o *Output) lost(c Cause) {
	if o.Lost != nil {
		o.Lost(o, c)
	}
}

// take is a spare piece, or a new one. Caller holds mu.
func (n *line) take() *piece {
	if k := len(n.spare); k > 0 {
		p := n.spare[k-1]
		n.spare = n.spare[:k-1]
		return p
	}
	p := &piece{line: n}
	p.sent, p.last = func() { p.partLeft(false) }, func() { p.partLeft(true) }
	return p
}

// tick is the timer's: it looks for what has passed its deadline, and ends a line that was empty for a while.
func (n *line) tick() {
	n.mu.Lock()
	if !n.busy {
		n.over = true
		n.mu.Unlock()
		n.s.end(n)
		return
	}
	n.mu.Unlock()
	n.pump()
}

// pump hands parts over while the link takes them. One goroutine at a time does so: a call that comes
// meanwhile has it look again.
func (n *line) pump() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.more = true; n.pumping {
		return
	}
	n.pumping = true
	wake := sweep
	for n.more {
		n.more = false
		wake = n.pumpLocked()
	}
	n.pumping = false
	switch {
	case n.over:
	case n.queue.Len() > 0:
		n.timer.Reset(wake)
	case n.busy:
		n.busy = false
		n.s.busy.Add(-1)
		n.timer.Reset(keep)
	}
}

// pumpLocked hands over what it can, and says when to look again. Caller holds mu, which is given up for each part.
func (n *line) pumpLocked() time.Duration {
	for {
		n.expire(mono.Now())
		p, ok := n.queue.Next()
		if !ok {
			return sweep
		}
		err := n.hand(n.pieces[p.Slot], p)
		switch {
		case errors.Is(err, transport.ErrFull):
			n.more = false // it was set by the refused part's release; asked at once the link would still be full
			if n.queue.Flying() == 0 {
				return again // others' frames fill the link: no call says when they have left
			}
			return sweep
		case err != nil:
			n.drop(CauseLink)
			return sweep
		}
	}
}

// hand gives the link a part. Caller holds mu, which is given up meanwhile.
func (n *line) hand(o *piece, p parts.Part) error {
	m := o.Head
	if whole := p.To-p.From == len(o.Data); !whole {
		m.Offset, m.Total = uint32(p.From), uint32(len(o.Data))
	}
	n.frame = m.Append(n.frame[:0], p.To-p.From)
	n.mu.Unlock()
	var err error
	left := o.sent
	if p.To == len(o.Data) {
		left = o.last
	}
	if p.To == p.From {
		err = n.link.Send(n.frame)
		left()
	} else {
		err = n.link.SendPayload(n.frame, o.Data[p.From:p.To], left)
	}
	n.mu.Lock()
	if n.queue.Handed(p, err == nil) {
		n.finish(o)
	}
	return err
}

// partLeft is each part's release: it has left its link, or was refused.
func (p *piece) partLeft(last bool) {
	n := p.line
	n.mu.Lock()
	if n.queue.Left(p.slot, last) {
		n.finish(p)
	}
	n.mu.Unlock()
	n.pump()
}

// finish lets an output go that is over. Caller holds mu, which is given up meanwhile.
func (n *line) finish(p *piece) {
	o := p.Output
	p.Output = Output{}
	n.pieces[p.slot] = nil
	n.spare = append(n.spare, p)
	n.mu.Unlock()
	o.release()
	n.mu.Lock()
}

// expire gives up outputs whose frontends have answered their requests themselves. Caller holds mu, which is given up meanwhile.
func (n *line) expire(now mono.Time) {
	for {
		id, deadline, ok := n.queue.First()
		if !ok || deadline > now.Add(-Grace) {
			return
		}
		n.give(n.pieces[id], CauseExpired)
	}
}

// drop gives all up that waits. Caller holds mu, which is given up meanwhile.
func (n *line) drop(c Cause) {
	for {
		id, _, ok := n.queue.First()
		if !ok {
			return
		}
		n.give(n.pieces[id], c)
	}
}

// give gives an output up. Caller holds mu, which is given up meanwhile.
func (n *line) give(p *piece, c Cause) {
	o := p.Output
	o.Release = nil
	begun, over := n.queue.Drop(p.slot)
	if over {
		n.finish(p)
	}
	if begun && c == CauseExpired {
		end := Output{Head: o.Head, Deadline: o.Deadline.Add(2 * Grace), Model: o.Model, Lost: o.Lost}
		end.Head.Reason = wire.ReasonDeadline
		n.addLocked(&end) // if there is no place for it, the frontend forgets by itself what it has got
	}
	n.mu.Unlock()
	o.lost(c)
	n.mu.Lock()
}
