package workload

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// FunctionsConfig says how a trace of counts is read and scaled.
type FunctionsConfig struct {
	Name   string // of the file, for errors
	Models int
	Scale  float64 // multiplies counts; 0: 1
	Speed  float64 // divides all spans; 0: 1
	Seed   uint64
}

// Functions replays a day of the Azure Functions trace (Shahrad and others,
// Serverless in the Wild, 2020), as Clockwork's evaluation does (section 6.5):
// a CSV file with the header `HashOwner,HashApp,HashFunction,Trigger,1,2,...`
// and a row of counts for each function, one for each minute.
//
// Row i, from 0, is asked of model i modulo Models: each model gets several
// functions when there are more rows than models. Only sums for each model are
// kept: memory is 4 bytes * Models * minutes, not more with more rows.
//
// The arrivals of a model within a minute are uniform and independent, as those
// of a Poisson process of which the count is known. Minute by minute, the
// process is Poisson with a rate that was observed. A fraction of a scaled
// count is the probability of one more.
type Functions struct {
	cfg     FunctionsConfig
	minutes int
	counts  []uint32 // of minute m and model k: [m*Models + k]

	minute  int // begun
	rand    random
	spreads []spread // of each model, in ns after the minute's begin
	next    pq.Heap  // model -> instant of its next arrival, in ns after the minute's begin
}

const (
	namedColumns = 4
	minuteNs     = 60e9
	countsMax    = 1 << 28 // models * minutes: 1 GiB
)

// NewFunctions reads the trace to its end.
func NewFunctions(r io.Reader, cfg FunctionsConfig) (*Functions, error) {
	if cfg.Scale == 0 {
		cfg.Scale = 1
	}
	if cfg.Speed == 0 {
		cfg.Speed = 1
	}
	if err := checkScale("scale", cfg.Scale); err != nil {
		return nil, err
	}
	if err := checkScale("speed", cfg.Speed); err != nil {
		return nil, err
	}
	if cfg.Models < 1 {
		return nil, fmt.Errorf("%w: no models", ErrInvalid)
	}
	f := &Functions{cfg: cfg, rand: newRandom(cfg.Seed, 0x6d696e757465)}
	l := newLines(cfg.Name, r)
	if err := f.readHeader(l); err != nil {
		return nil, err
	}
	for row := 0; ; row++ {
		line, err := l.next()
		if err != nil {
			return nil, err
		}
		if line == nil && row == 0 {
			return nil, l.bad("no rows")
		}
		if line == nil {
			return f, nil
		}
		if err := f.readRow(l, line, row%cfg.Models); err != nil {
			return nil, err
		}
	}
}

// readHeader counts the minutes.
func (f *Functions) readHeader(l *lines) error {
	line, err := l.next()
	if err != nil {
		return err
	}
	names := [namedColumns]string{"HashOwner", "HashApp", "HashFunction", "Trigger"}
	more := line != nil
	for column := 1; more; column++ {
		var name []byte
		name, line, more = field(line)
		want := strconv.Itoa(column - namedColumns)
		if column <= namedColumns {
			want = names[column-1]
		}
		if string(name) != want {
			return l.bad("column %d: header %q, must be %s", column, name, want)
		}
		f.minutes = column - namedColumns
	}
	if f.minutes < 1 {
		return l.bad("no header with %s,%s,%s,%s,1,...", names[0], names[1], names[2], names[3])
	}
	if f.cfg.Models > countsMax/f.minutes {
		return l.bad("%d models and %d minutes are too many", f.cfg.Models, f.minutes)
	}
	f.counts = make([]uint32, f.cfg.Models*f.minutes)
	f.spreads = make([]spread, f.cfg.Models)
	return nil
}

func (f *Functions) readRow(l *lines, line []byte, model int) error {
	more := true
	for column := 1; column <= namedColumns+f.minutes; column++ {
		if !more {
			return l.bad("column %d is missing, the header has %d", column, namedColumns+f.minutes)
		}
		var value []byte
		value, line, more = field(line)
		if column <= namedColumns {
			continue
		}
		minute := column - namedColumns - 1
		n, ok := parseDigits(value)
		if !ok {
			what := "is no whole number"
			if bytes.HasPrefix(value, []byte{'-'}) {
				what = "is negative"
			}
			return l.bad("column %d (minute %d): count %q %s", column, minute+1, value, what)
		}
		sum := &f.counts[minute*f.cfg.Models+model]
		if n > math.MaxUint32-int64(*sum) {
			return l.bad("column %d (minute %d): count %s is too large", column, minute+1, value)
		}
		*sum += uint32(n)
	}
	if more {
		return l.bad("column %d is one more than the header has", namedColumns+f.minutes+1)
	}
	return nil
}

// Next implements Source.
func (f *Functions) Next() (mono.Time, int, bool) {
	for f.next.Len() == 0 {
		if f.minute == f.minutes {
			return mono.Never, 0, false
		}
		f.begin()
	}
	model, ns := f.next.Min()
	f.set(int(model))
	at := scaled(mono.Time(f.minute-1)*minuteNs+mono.Time(ns), f.cfg.Speed)
	return at, int(model), at != mono.Never
}

// begin begins a minute.
func (f *Functions) begin() {
	for k := range f.spreads {
		n := f.counts[f.minute*f.cfg.Models+k]
		left := f.rand.whole(float64(float64(n) * f.cfg.Scale))
		f.spreads[k] = spread{end: minuteNs, left: left}
		f.set(k)
	}
	f.minute++
}

// set puts a model's next arrival of this minute into the heap.
func (f *Functions) set(model int) {
	s := &f.spreads[model]
	if s.left == 0 {
		f.next.Remove(uint32(model))
		return
	}
	f.next.Set(uint32(model), int64(s.next(&f.rand)))
}
