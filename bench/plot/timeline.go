package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strconv"

	"github.com/symphony-serving/symphony/transport/mono"
	"gonum.org/v1/plot/vg"
)

// Timeline is a picture of who ran when (Symphony, Figures 4 and 5): a row for
// each GPU, a box for each batch with its size in it, dots for the requests
// above them and red ticks for the drops below.
//
// A box has its model's colour. With a single model the colours go round from
// batch to batch, in order of their start, and a request has the colour of the
// batch it ran in: the stairs of staggered execution are then seen at once.
type Timeline struct {
	Title    string
	GPUs     int
	Rows     []string // names of the GPUs' rows; nil: GPU 0, GPU 1, ...
	Models   []string // names, by Batch.Model; at most one: none are shown
	Batches  []Batch
	Requests []Request   // none: no row
	Drops    []mono.Time // none: no row
	From, To mono.Time   // both 0: all that is there
}

// Batch is one execution.
type Batch struct {
	GPU, Model int
	Start, End mono.Time
	Size       int
}

// Request is an arrival. Batch is its index in Timeline.Batches, or None.
type Request struct {
	At    mono.Time
	Batch int
}

// None is the Batch of a request that was dropped, or is not known.
const None = -1

const (
	boxesMax = 20_000 // more cannot be told apart, and make a file of megabytes
	gpusMax  = 4096
)

func (t Timeline) plan() (*sheet, error) {
	x, err := t.check()
	if err != nil {
		return nil, fmt.Errorf("timeline %q: %w", t.Title, err)
	}
	c := &chart{title: t.Title, legend: LegendNone}
	c.x = Axis{Label: "time (ms)"}.scaleX(x, false)
	hues := t.hues(c)
	r := t.rows()
	c.y = scale{lo: 0, hi: r.height(), named: true, bare: true}
	c.adapt = func(_ *pen, _, h vg.Length) {
		r.fit(h)
		c.y.hi, c.y.ticks = r.height(), r.ticks(h, t.Rows)
	}
	c.below = []layer{r.drawStripes}
	c.layers = []layer{
		func(f *frame) { t.drawBatches(f, r, hues) },
		func(f *frame) { t.drawRequests(f, r, hues) },
		func(f *frame) { t.drawDrops(f, r) },
	}
	return one(c), nil
}

// check returns the range in milliseconds.
func (t Timeline) check() (x span, err error) {
	if t.GPUs < 1 || t.GPUs > gpusMax {
		return x, fmt.Errorf("%w: %d GPUs, must be 1 to %d", ErrInvalid, t.GPUs, gpusMax)
	}
	if t.Rows != nil && len(t.Rows) != t.GPUs {
		return x, fmt.Errorf("%w: %d names for %d rows", ErrInvalid, len(t.Rows), t.GPUs)
	}
	if len(t.Batches)+len(t.Requests)+len(t.Drops) == 0 {
		return x, fmt.Errorf("%w: no data", ErrInvalid)
	}
	if t.From > t.To || t.From == t.To && t.From != 0 {
		return x, fmt.Errorf("%w: from %v to %v", ErrInvalid, t.From, t.To)
	}
	for i, b := range t.Batches {
		if b.GPU < 0 || b.GPU >= t.GPUs || b.Model < 0 || b.Model >= max(1, len(t.Models)) || b.End < b.Start || b.Size < 1 {
			return x, fmt.Errorf("%w: batch %d: size %d, GPU %d, model %d, from %v to %v", ErrInvalid, i, b.Size, b.GPU, b.Model, b.Start, b.End)
		}
		x.add(millis(b.Start))
		x.add(millis(b.End))
	}
	for i, r := range t.Requests {
		if r.Batch < None || r.Batch >= len(t.Batches) {
			return x, fmt.Errorf("%w: request %d: batch %d of %d", ErrInvalid, i, r.Batch, len(t.Batches))
		}
		x.add(millis(r.At))
	}
	for _, at := range t.Drops {
		x.add(millis(at))
	}
	if t.From != t.To {
		x = span{millis(t.From), millis(t.To), true}
	}
	boxes := 0
	for _, b := range t.Batches {
		if millis(b.End) >= x.lo && millis(b.Start) <= x.hi {
			boxes++
		}
	}
	if boxes > boxesMax {
		return x, fmt.Errorf("%w: %d batches from %g to %g ms, at most %d: narrow the range", ErrInvalid, boxes, x.lo, x.hi, boxesMax)
	}
	return x, nil
}

func millis(t mono.Time) float64 { return float64(t) / 1e6 }

// hues gives each batch its colour, and the chart its legend.
func (t Timeline) hues(c *chart) []color.NRGBA {
	out := make([]color.NRGBA, len(t.Batches))
	if len(t.Models) > 1 {
		busy := make([]float64, len(t.Models))
		for _, b := range t.Batches {
			busy[b.Model] += float64(b.End.Sub(b.Start))
		}
		all := looks(t.Models, busy)
		for i, b := range t.Batches {
			out[i] = all[b.Model].patch
		}
		c.keys, c.legend = keysOf(t.Models, all, true, false), LegendTop
		return out
	}
	order := make([]int, len(t.Batches))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if d := t.Batches[a].Start.Sub(t.Batches[b].Start); d != 0 {
			return cmp.Compare(d, 0)
		}
		return t.Batches[a].GPU - t.Batches[b].GPU
	})
	round := []int{blue, orange, green, purple, sky, vermilion}
	for n, i := range order {
		out[i] = palette(round[n%len(round)])
	}
	return out
}

// rows are the timeline's rows from top to bottom: the requests, the GPUs, the
// drops. A GPU's row is 1 high on the y axis, which counts from below.
type rows struct {
	gpus            int
	requests, drops bool
	other           float64 // height of the rows that are no GPU's
}

func (t Timeline) rows() *rows {
	return &rows{gpus: t.GPUs, requests: len(t.Requests) > 0, drops: len(t.Drops) > 0, other: 1}
}

// otherLeast is the least height in points of a row that is no GPU's.
const otherLeast = 13

// fit makes those rows high enough to be read, whatever the number of GPUs.
func (r *rows) fit(h vg.Length) {
	r.other = 1
	n := r.height() - float64(r.gpus)
	if room := float64(h) - n*otherLeast; float64(h) < otherLeast*r.height() && room > 0 {
		r.other = otherLeast * float64(r.gpus) / room
	}
}

func (r *rows) height() float64 {
	h := float64(r.gpus)
	if r.requests {
		h += r.other
	}
	if r.drops {
		h += r.other
	}
	return h
}

// Middles of the rows on the y axis.
func (r *rows) ofRequests() float64 { return r.height() - r.other/2 }
func (r *rows) ofDrops() float64    { return r.other / 2 }

func (r *rows) ofGPU(g int) float64 {
	y := float64(r.gpus-g) - 0.5
	if r.drops {
		y += r.other
	}
	return y
}

// ticks names the rows; every second, fifth or tenth GPU where they are thin.
func (r *rows) ticks(h vg.Length, names []string) []tick {
	every := 1
	for _, e := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if every = e; float64(h)/r.height()*float64(e) >= 10 {
			break
		}
	}
	var out []tick
	if r.requests {
		out = append(out, tick{r.ofRequests(), "requests"})
	}
	for g := 0; g < r.gpus; g += every {
		name := "GPU " + strconv.Itoa(g)
		if names != nil {
			name = names[g]
		}
		out = append(out, tick{r.ofGPU(g), name})
	}
	if r.drops {
		out = append(out, tick{r.ofDrops(), "drops"})
	}
	return out
}
