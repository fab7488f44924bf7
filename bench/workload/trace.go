package workload

import (
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/transport/mono"
)

// TraceConfig says how a trace of arrivals is read and scaled.
type TraceConfig struct {
	// Name of the file, for errors.
	Name string
	// Index maps the model names of the second column. If nil, the trace has no
	// such column, or one that means something else, and each arrival's model is
	// drawn by Shares.
	Index  map[string]int
	Shares []float64
	// Speed divides all spans: 2 replays twice as fast. 0: 1.
	Speed float64
	// Rate in requests/s that the trace is brought to, after Speed; 0: as it is.
	Rate float64
	// Mean rate of the trace itself, as MeasureTrace tells. 0: it is measured in
	// a first pass if Rate is set, for which the reader must be an io.Seeker.
	Mean float64
	// Loop begins again after the end, for ever, one mean gap after the last
	// arrival. The reader must be an io.Seeker.
	Loop bool
	Seed uint64
}

// scaleMin, scaleMax bound the factors of traces, and so the work of one Next.
const scaleMin, scaleMax = 1e-6, 1e6

func checkScale(what string, v float64) error {
	if v >= scaleMin && v <= scaleMax {
		return nil
	}
	return fmt.Errorf("%w: %s %g, must be %g to %g", ErrInvalid, what, v, scaleMin, scaleMax)
}

// Trace replays a CSV file of arrivals, a line `timestamp,model` or `timestamp`
// each: seconds, or dates with a time of day (parseTimestamp). Further columns
// are ignored, as is a first line that begins with a letter, the header.
// Timestamps must not decrease. The first arrival is at instant 0.
//
// It reads as it goes and holds two lines, however long the trace. An error
// ends it: after the last Next, ask Err.
//
// To bring it to k times its rate, each arrival is replaced by k of its model,
// one in its place and the others anywhere until the next arrival, so that
// bursts stay where they are and last as long. A fraction of k is the
// probability of one more; below 1, of the arrival itself.
//
// Rejected: to scale the time instead. It changes how long bursts last against
// SLOs and batches; who wants that sets Speed.
type Trace struct {
	cfg    TraceConfig
	copies float64 // for each arrival
	seeker io.Seeker
	reader io.Reader

	lines   *lines
	first   mono.Time // timestamp of the first arrival; also of later rounds
	shift   mono.Time // added to timestamps: rounds before, minus first
	arrival record    // the last one read
	now     record    // the one that is replayed
	read    int64     // arrivals of this round
	ended   bool
	err     error

	rand   random
	pick   picker
	spread spread    // the copies of now that are left, in ns after it
	until  mono.Time // none is later
}

type record struct {
	at    mono.Time
	model int
}

// TraceStats is what a pass over a trace tells.
type TraceStats struct {
	Arrivals int64
	Span     mono.Dur // first to last
}

// Rate is the mean in requests/s.
func (s TraceStats) Rate() float64 { return float64(s.Arrivals-1) / s.Span.Seconds() }

// MeasureTrace reads a trace to its end and checks each line. Of cfg, only Name
// and Index matter.
func MeasureTrace(r io.Reader, cfg TraceConfig) (TraceStats, error) {
	t := Trace{cfg: cfg, lines: newLines(cfg.Name, r)}
	for t.readLine() {
	}
	if t.err != nil {
		return TraceStats{}, t.err
	}
	stats := TraceStats{t.read, t.arrival.at.Sub(t.first)}
	if t.read < 2 || stats.Span == 0 {
		return stats, t.lines.bad("%d arrivals within %s have no rate", t.read, stats.Span)
	}
	return stats, nil
}

// NewTrace checks the configuration and reads the first arrival.
func NewTrace(r io.Reader, cfg TraceConfig) (*Trace, error) {
	if cfg.Name == "" {
		cfg.Name = "trace"
	}
	if cfg.Speed == 0 {
		cfg.Speed = 1
	}
	if err := checkScale("speed", cfg.Speed); err != nil {
		return nil, err
	}
	t := &Trace{cfg: cfg, copies: 1, reader: r, rand: newRandom(cfg.Seed, 0x7472616365)}
	if cfg.Index == nil {
		if err := checkShares(cfg.Shares); err != nil {
			return nil, err
		}
		t.pick = newPicker(cfg.Shares)
	}
	t.seeker, _ = r.(io.Seeker)
	if t.seeker == nil && (cfg.Loop || cfg.Rate != 0 && cfg.Mean == 0) {
		return nil, fmt.Errorf("%w: %s cannot be read twice, as a loop or a rate without a mean demands", ErrInvalid, cfg.Name)
	}
	if cfg.Rate != 0 {
		if err := t.scale(); err != nil {
			return nil, err
		}
	}
	t.lines = newLines(cfg.Name, r)
	if !t.readLine() {
		if t.err == nil {
			t.err = t.lines.bad("no arrivals")
		}
		return nil, t.err
	}
	return t, nil
}

// scale finds how many copies each arrival needs.
func (t *Trace) scale() error {
	mean := t.cfg.Mean
	if mean == 0 {
		stats, err := MeasureTrace(t.reader, t.cfg)
		if err != nil {
			return err
		}
		if err := t.rewind(); err != nil {
			return err
		}
		mean = stats.Rate()
	}
	t.copies = t.cfg.Rate / float64(mean*t.cfg.Speed)
	return checkScale("rate over the trace's own rate", t.copies)
}

func (t *Trace) rewind() error {
	if _, err := t.seeker.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, t.cfg.Name, err)
	}
	return nil
}

// Err is why the trace ended before its end; nil if it did not.
func (t *Trace) Err() error { return t.err }

// Next implements Source.
func (t *Trace) Next() (mono.Time, int, bool) {
	for t.spread.left == 0 {
		if t.ended {
			return mono.Never, 0, false
		}
		n := int64(1)
		if t.copies != 1 {
			n = t.rand.whole(t.copies)
		}
		t.advance()
		if n > 0 {
			t.spread.left = n - 1
			return t.out(t.now.at)
		}
	}
	return t.out(min(t.now.at+mono.Time(t.spread.next(&t.rand)), t.until))
}

// out is an arrival at that instant of the trace.
func (t *Trace) out(at mono.Time) (mono.Time, int, bool) {
	model := t.now.model
	if t.cfg.Index == nil {
		model = t.pick.pick(&t.rand)
	}
	at = scaled(at, t.cfg.Speed)
	if at == mono.Never {
		t.spread.left, t.ended = 0, true
	}
	return at, model, at != mono.Never
}

// scaled is the instant at that speed; Never beyond 292 years.
func scaled(at mono.Time, speed float64) mono.Time {
	if speed == 1 {
		return at
	}
	ns := float64(at) / speed
	if ns >= float64(mono.Never) {
		return mono.Never
	}
	return mono.Time(ns)
}

// advance makes the arrival read last the one to replay, and reads the next:
// copies are spread until then.
func (t *Trace) advance() {
	t.now = t.arrival
	t.now.at += t.shift - t.first
	t.until = t.now.at
	if t.readLine() || t.err == nil && t.cfg.Loop && t.again() {
		t.until = t.arrival.at + t.shift - t.first
	} else {
		t.ended = true
		if t.read > 1 {
			t.until = t.until.Add(t.meanGap())
		}
	}
	t.spread = spread{end: float64(t.until - t.now.at)}
}

func (t *Trace) meanGap() mono.Dur { return t.arrival.at.Sub(t.first) / mono.Dur(t.read-1) }

// again begins the next round.
func (t *Trace) again() bool {
	if t.read < 2 || t.arrival.at == t.first {
		t.err = t.lines.bad("%d arrivals within 0ms cannot be repeated", t.read)
		return false
	}
	t.shift = t.shift.Add(t.arrival.at.Sub(t.first) + t.meanGap())
	if t.shift > mono.Never/2 {
		return false
	}
	if t.err = t.rewind(); t.err != nil {
		return false
	}
	t.lines.restart(t.reader)
	t.read = 0
	return t.readLine()
}

// readLine reads the next arrival; false at the end and at an error.
func (t *Trace) readLine() bool {
	line, err := t.lines.next()
	if line == nil {
		t.err = err
		return false
	}
	stamp, rest, more := field(line)
	if t.lines.n == 1 && letter(stamp) {
		return t.readLine()
	}
	at, ok := parseTimestamp(stamp)
	if !ok {
		t.err = t.lines.bad("column 1: timestamp %q, must be seconds or YYYY-MM-DD hh:mm:ss", stamp)
		return false
	}
	r := record{at: at}
	if t.cfg.Index != nil {
		name, _, _ := field(rest)
		if !more {
			t.err = t.lines.bad("column 2: the model is missing")
			return false
		}
		if r.model, ok = t.cfg.Index[string(name)]; !ok {
			t.err = t.lines.bad("column 2: unknown model %q", name)
			return false
		}
	}
	if t.read > 0 && at < t.arrival.at {
		t.err = t.lines.bad("column 1: timestamp %q is earlier than the one before", stamp)
		return false
	}
	if t.read == 0 {
		t.first = at
	}
	t.arrival = r
	t.read++
	return true
}
