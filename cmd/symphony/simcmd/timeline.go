package simcmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// timeline gathers what is drawn: the batches that run in the span, and the
// requests that arrive in it.
type timeline struct {
	from, to mono.Time
	picture  plot.Timeline
	over     bool // more than can be drawn
}

// timelineMax bounds requests and batches: what is drawn is looked at.
const timelineMax = 20_000

func checkTimeline(c Command) error {
	if c.Timeline == "" {
		return nil
	}
	end := c.Warmup + c.Duration
	switch ext := filepath.Ext(c.Timeline); {
	case ext != ".svg" && ext != ".png":
		return fmt.Errorf("--timeline: %q must end with .svg or .png; both are written", c.Timeline)
	case c.Span != nil && *c.Span <= 0:
		return fmt.Errorf("--timeline-span: %v, must be above 0", *c.Span)
	case c.From != nil && (*c.From < 0 || *c.From >= end):
		return fmt.Errorf("--timeline-from: %v, must be within the run: 0 to %v", *c.From, end)
	}
	return nil
}

func newTimeline(c Command, p *scenario.Plan) *timeline {
	from := mono.Time(c.Warmup)
	if c.From != nil {
		from = mono.Time(*c.From)
	}
	span := 100 * mono.Millisecond
	if c.Span != nil {
		span = mono.Dur(*c.Span)
	}
	s := &p.Scenario
	t := &timeline{from: from, to: from.Add(span)}
	t.picture = plot.Timeline{Title: fmt.Sprintf("%s, %d GPUs", s.Policy, s.GPUs), GPUs: s.GPUs, From: t.from, To: t.to}
	if len(s.Models) == 1 {
		t.picture.Title += ", " + s.Models[0].Name
	} else {
		for _, m := range s.Models {
			t.picture.Models = append(t.picture.Models, m.Name)
		}
	}
	return t
}

func (t *timeline) observer() sim.Observer {
	return sim.Observer{Executed: t.executed, Drop: t.drop}
}

func (t *timeline) within(at mono.Time) bool { return at >= t.from && at < t.to }

// executed takes a batch if it, or one of its requests, is in the span.
func (t *timeline) executed(e *sim.Execution) {
	p := &t.picture
	ran := e.Start < t.to && e.End > t.from
	came := e.Kept && slices.ContainsFunc(e.Requests, func(r batching.Request) bool { return t.within(r.Arrival) })
	if t.over || !ran && !came {
		return
	}
	p.GPUs = max(p.GPUs, int(e.GPU)+1)
	p.Batches = append(p.Batches, plot.Batch{GPU: int(e.GPU), Model: int(e.Model), Start: e.Start, End: e.End, Size: len(e.Requests)})
	for i := range e.Requests {
		if at := e.Requests[i].Arrival; e.Kept && t.within(at) {
			p.Requests = append(p.Requests, plot.Request{At: at, Batch: len(p.Batches) - 1})
		}
	}
	t.over = len(p.Batches)+len(p.Requests) > timelineMax
}

func (t *timeline) drop(now mono.Time, d *batching.Drop) {
	p := &t.picture
	if t.over {
		return
	}
	if t.within(d.Request.Arrival) {
		p.Requests = append(p.Requests, plot.Request{At: d.Request.Arrival, Batch: plot.None})
	}
	if t.within(now) {
		p.Drops = append(p.Drops, now)
	}
	t.over = len(p.Batches)+len(p.Requests)+len(p.Drops) > timelineMax
}

// write draws FILE.svg and FILE.png, and notes that.
func (t *timeline) write(path string, notes io.Writer) error {
	if t.over {
		return fmt.Errorf("--timeline: more than %d batches and requests from %v to %v: narrow --timeline-span", timelineMax, t.from, t.to)
	}
	rows := min(t.picture.GPUs, 64)
	size := plot.Size{W: 9, H: 1.8 + 0.22*float64(rows)}
	base := strings.TrimSuffix(path, filepath.Ext(path))
	err := plot.Write(base, size, t.picture)
	if errors.Is(err, plot.ErrInvalid) {
		return fmt.Errorf("--timeline: %w", err)
	}
	if err == nil {
		fmt.Fprintf(notes, "timeline: %s.svg and %s.png\n", base, base)
	}
	return err
}
