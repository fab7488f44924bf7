package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// overlap is what of the copies hides behind execution.
type overlap struct {
	Models []*overlapOf `json:"models"`
	Of     int          `json:"of"` // models there are: each is loaded once more, which takes its time
}

// overlapOf is one model's, in batches of one size.
type overlapOf struct {
	Model     string  `json:"model"`
	Batch     int     `json:"batch"`
	Batches   int     `json:"batches"`
	BytesIn   int     `json:"bytes_in"`
	CopyInUS  float64 `json:"copy_in_us"` // median
	CopyOutUS float64 `json:"copy_out_us"`
	RunUS     float64 `json:"run_us"`
	HiddenIn  float64 `json:"hidden_in"` // share of the copies' time while something executed
	HiddenOut float64 `json:"hidden_out"`
	// Between the end of an execution and the begin of the next: batches handed to the device
	// ahead, and one only after the end of the one before.
	GapAheadUS float64 `json:"gap_ahead_us"`
	GapAfterUS float64 `json:"gap_after_us"`
	Depth      int     `json:"depth"` // batches that the device takes at a time; 1: none ahead
	// HiddenThere is the device's own count of the first: both ways, by its events.
	HiddenThere float64 `json:"hidden_in_device"`
	Error       string  `json:"error,omitempty"`

	timeline []phases
}

// phases of a batch, by events.
type phases struct{ in, run, out interval }

// interval is on the device's clock, from the first event on.
type interval struct{ from, to mono.Dur }

func (i interval) length() mono.Dur { return i.to - i.from }

// overlapBatches are queued in a row.
const overlapBatches = 40

// measureOverlap is of each model's largest batch: streams by themselves, which is what the
// device could do, and then the device that serves.
func measureOverlap(ctx context.Context, b *bench) (section, error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	all := &overlap{Of: len(d.Models)}
	var errs []error
	took := mono.Dur(0) // by the model before
	for i := range d.Models {
		if took*5/4 > leftOf(ctx) {
			break // those that there was time for are told
		}
		begin := mono.Now()
		m := &d.Models[i]
		one := &overlapOf{Model: m.Spec.Key(), Batch: m.Sizes[len(m.Sizes)-1], Depth: 1}
		one.BytesIn = one.Batch * itemSize(m.Spec.Inputs)
		err := d.overlapStreams(ctx, i, one)
		if err == nil {
			err = d.overlapDevice(ctx, i, one)
		}
		if one.Batches > 0 {
			all.Models = append(all.Models, one)
		}
		if err != nil {
			one.Error = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", one.Model, err))
		}
		if ctx.Err() != nil || errors.Is(err, errHang) {
			break
		}
		took = mono.Now().Sub(begin)
	}
	return all, errors.Join(errs...)
}

// of tells the shares from the batches' phases.
func (o *overlapOf) of(all []phases) {
	o.Batches, o.timeline = len(all), all
	if len(all) == 0 {
		return
	}
	var runs, ins, outs []interval
	for _, p := range all {
		runs, ins, outs = append(runs, p.run), append(ins, p.in), append(outs, p.out)
	}
	// The first copy in and the last one out have nothing to hide behind in any pipeline.
	o.HiddenIn, o.HiddenOut = hidden(ins[1:], runs), hidden(outs[:len(outs)-1], runs)
	o.CopyInUS, o.CopyOutUS, o.RunUS = medianMicros(ins), medianMicros(outs), medianMicros(runs)
}

func medianMicros(all []interval) float64 {
	var spans []mono.Dur
	for _, i := range all {
		spans = append(spans, i.length())
	}
	return float64(median(spans)) / 1e3
}

// hidden is the share of the copies' time in which something executed.
func hidden(copies, runs []interval) float64 {
	runs = union(runs)
	var all, covered mono.Dur
	for _, c := range copies {
		all += max(0, c.length())
		for _, r := range runs {
			covered += max(0, min(c.to, r.to)-max(c.from, r.from))
		}
	}
	if all == 0 {
		return 0
	}
	return float64(covered) / float64(all)
}

// union joins intervals that overlap.
func union(all []interval) []interval {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var out []interval
	for _, i := range sorted {
		if n := len(out); n > 0 && i.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, i.to)
			continue
		}
		out = append(out, i)
	}
	return out
}

// overlapDevice launches batches ahead of each other, and then one by one.
func (d *Direct) overlapDevice(ctx context.Context, index int, one *overlapOf) error {
	if p, ok := d.GPU.(interface{ Depth() int }); ok {
		one.Depth = max(1, p.Depth())
	}
	counted, _ := d.GPU.(interface{ Stats() *cuda.Stats })
	var copied, hid int64
	if counted != nil {
		copied, hid = counted.Stats().Copied.Load(), counted.Stats().Hidden.Load()
	}
	ahead, err := d.gaps(ctx, index, one.Batch, one.Depth)
	if err != nil {
		return err
	}
	if counted != nil {
		if copied = counted.Stats().Copied.Load() - copied; copied > 0 {
			one.HiddenThere = float64(counted.Stats().Hidden.Load()-hid) / float64(copied)
		}
	}
	after, err := d.gaps(ctx, index, one.Batch, 1)
	if err != nil {
		return err
	}
	one.GapAheadUS, one.GapAfterUS = ahead, after
	return nil
}

// gaps is the median time between executions with so many batches at the device.
func (d *Direct) gaps(ctx context.Context, index, size, depth int) (float64, error) {
	var shots []*shot
	for range depth {
		s, free, err := d.shot(&d.Models[index], index, size, 0)
		if err != nil {
			return 0, err
		}
		defer free()
		shots = append(shots, s)
	}
	var gaps []mono.Dur
	var last ran
	launched := 0
	for ; launched < depth; launched++ {
		d.GPU.Launch(&shots[launched].batch)
	}
	for i := range warmRuns + overlapBatches {
		s := shots[i%depth]
		r, err := s.wait(ctx)
		if err != nil {
			return 0, errors.Join(err, drain(ctx, shots, i+1, launched))
		}
		if i > warmRuns {
			gaps = append(gaps, max(0, r.start.Sub(last.end)))
		}
		last = r
		if launched < warmRuns+overlapBatches {
			d.GPU.Launch(&s.batch)
			launched++
		}
	}
	return float64(median(gaps)) / 1e3, nil
}

// drain waits for what was launched, so that its memory may go. Behind one that hangs all do.
func drain(ctx context.Context, shots []*shot, from, launched int) (err error) {
	for i := from; i < launched; i++ {
		s := shots[i%len(shots)]
		if s.stray = errors.Is(err, errHang); !s.stray {
			_, err = s.wait(ctx)
		}
	}
	return err
}

func (o *overlap) summary() string {
	for _, m := range o.Models {
		return fmt.Sprintf("%s: %.0f %% of the copies in and %.0f %% of those out hide behind execution", m.Model, 100*m.HiddenIn, 100*m.HiddenOut)
	}
	return "nothing was measured"
}

func (o *overlap) table() [][]string {
	t := [][]string{{"model", "batch", "bytes_in", "copy_in_us", "copy_out_us", "run_us", "hidden_in", "hidden_out", "hidden_in_device", "gap_ahead_us", "gap_after_us", "depth"}}
	for _, m := range o.Models {
		t = append(t, []string{m.Model, fmt.Sprint(m.Batch), fmt.Sprint(m.BytesIn), precise(m.CopyInUS), precise(m.CopyOutUS), precise(m.RunUS),
			precise(m.HiddenIn), precise(m.HiddenOut), precise(m.HiddenThere), precise(m.GapAheadUS), precise(m.GapAfterUS), fmt.Sprint(m.Depth)})
	}
	return t
}

func (o *overlap) text() string {
	t := grid{{"model", "batch", "copy in us (MB)", "copy out us", "execution us", "of copies in hidden", "of copies out", "of the device's copies", "gap, launched ahead, us", "gap, launched after, us"}}
	for _, m := range o.Models {
		t = append(t, []string{m.Model, fmt.Sprint(m.Batch), fmt.Sprintf("%.1f (%.2f)", m.CopyInUS, float64(m.BytesIn)/1e6), fmt.Sprintf("%.1f", m.CopyOutUS), fmt.Sprintf("%.1f", m.RunUS),
			percent(m.HiddenIn), percent(m.HiddenOut), percent(m.HiddenThere), fmt.Sprintf("%.1f", m.GapAheadUS), fmt.Sprintf("%.1f", m.GapAfterUS)})
	}
	some := ""
	if len(o.Models) < o.Of {
		some = fmt.Sprintf(" There was time for %d of %d models.", len(o.Models), o.Of)
	}
	return fmt.Sprintf("%d batches in a row through two slots on three streams; hidden is the share of the copies' time, by events, in which a batch executed. The device that serves counts its own copies, both ways, with batches handed over ahead. The gaps are its, too: from the end of an execution to the begin of the next, with the next batch handed over ahead, or after.%s\n\n%s", overlapBatches, some, t)
}

// shownPhases are drawn.
const shownPhases = 8

// pictures draws the first model's streams in the middle of the row.
func (o *overlap) pictures() []named {
	for _, m := range o.Models {
		if len(m.timeline) < shownPhases+2 {
			continue
		}
		from := len(m.timeline)/2 - shownPhases/2
		part := m.timeline[from : from+shownPhases]
		t := plot.Timeline{Title: fmt.Sprintf("%s, batches of %d", m.Model, m.Batch), GPUs: 3, Rows: []string{"copies in", "execution", "copies out"}}
		for _, p := range part {
			for row, i := range []interval{p.in, p.run, p.out} {
				t.Batches = append(t.Batches, plot.Batch{GPU: row, Start: mono.Time(i.from - part[0].in.from), End: mono.Time(i.to - part[0].in.from), Size: m.Batch})
			}
		}
		return []named{{"overlap", "Streams in time", plot.Size{W: 8.5, H: 2.4}, t}}
	}
	return nil
}
