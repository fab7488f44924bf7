package workload

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Closed is a Source whose arrivals depend on the answers: who drives it tells of each
// answer, and looks at the next arrival again afterwards.
type Closed interface {
	Source
	// Peek is the arrival that Next takes. One that comes earlier may be found after
	// Answered.
	Peek() (at mono.Time, model int, ok bool)
	// Answered tells that a request of a model was answered, or refused, at an instant
	// that no arrival taken so far is after.
	Answered(at mono.Time, model int)
}

// Clients are closed-loop ones: each has one request open, and sends the next one so long
// after its answer (Turnaround, above 0). Those of a model are alike, so it does not matter whose
// answer came. Beside them may stand a Source of other models.
type Clients struct {
	turnaround mono.Dur
	beside     Source
	waiting    []bool    // model -> it has clients
	order      pq.Sorted // instant -> model
	at         mono.Time // the next arrival of beside
	model      int
	more       bool // there is one
}

// NewClients has counts[m] clients of model m; they begin evenly over the first of
// spread, the models by turns. beside may be nil: nobody else asks. A model is asked by
// clients or by beside, not by both.
func NewClients(counts []int, turnaround, spread mono.Dur, beside Source) (*Clients, error) {
	c := &Clients{turnaround: turnaround, beside: beside, waiting: make([]bool, len(counts))}
	all, most := 0, 0
	for m, n := range counts {
		if n < 0 {
			return nil, fmt.Errorf("%w: model %d: %d clients", ErrInvalid, m, n)
		}
		all, most = all+n, max(most, n)
		c.waiting[m] = n > 0
	}
	if turnaround <= 0 || spread < 0 { // without one, a refusal brings a request at the same instant, for ever
		return nil, fmt.Errorf("%w: clients: turnaround %v must be above 0, and spread %v not below", ErrInvalid, turnaround, spread)
	}
	if all == 0 && beside == nil {
		return nil, fmt.Errorf("%w: no clients", ErrInvalid)
	}
	begun := 0
	for round := range most {
		for m, n := range counts {
			if round < n {
				c.order.Insert(pq.Entry{Key: int64(spread) * int64(begun) / int64(all), Value: uint32(m)})
				begun++
			}
		}
	}
	c.fetch()
	return c, nil
}

// fetch takes the next arrival of beside.
func (c *Clients) fetch() {
	if c.beside != nil {
		c.at, c.model, c.more = c.beside.Next()
	}
}

// Peek implements Closed.
func (c *Clients) Peek() (mono.Time, int, bool) {
	if c.order.Len() > 0 && (!c.more || c.order.At(0).Key <= int64(c.at)) {
		e := c.order.At(0)
		return mono.Time(e.Key), int(e.Value), true
	}
	if !c.more {
		return mono.Never, 0, false
	}
	return c.at, c.model, true
}

// Next implements Source.
func (c *Clients) Next() (mono.Time, int, bool) {
	at, model, ok := c.Peek()
	switch {
	case !ok:
	case c.order.Len() > 0 && c.order.At(0).Key == int64(at) && int(c.order.At(0).Value) == model:
		c.order.Pop()
	default:
		c.fetch()
	}
	return at, model, ok
}

// Answered implements Closed. Requests of models without clients are nobody's.
func (c *Clients) Answered(at mono.Time, model int) {
	if model < len(c.waiting) && c.waiting[model] {
		c.order.Insert(pq.Entry{Key: int64(at.Add(c.turnaround)), Value: uint32(model)})
	}
}
