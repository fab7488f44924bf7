package scenario

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Trace is arrivals from a file: a line for each, or the counts for each
// minute of the Azure Functions trace; the header tells them apart.
type Trace struct {
	File   string  `json:"file"`
	Models string  `json:"models"` // drawn, column; rows for counts
	Speed  float64 `json:"speed"`  // divides all spans; 0: 1
	Loop   bool    `json:"loop"`   // begins again after its end
	// Sum is the SHA-256 of the file; Plan fills it in, or demands it when it is
	// given: another file of that name would give other results.
	Sum string `json:"sha256"`
}

// Ways in which an arrival of a trace gets its model.
const (
	drawn  = "drawn"  // by popularity
	column = "column" // the second column names it
	rows   = "rows"   // row i of counts is asked of model i modulo their number
)

// trace is a file that has been read once.
type trace struct {
	Trace
	names  []string
	shares []float64 // of the models
	rate   float64   // its own at speed 1, requests/s
	length mono.Dur  // of one round, at speed 1
}

// newTrace checks and measures the file. shares are the models' by popularity.
func newTrace(t Trace, names []string, shares []float64) (*trace, error) {
	if t.Speed == 0 {
		t.Speed = 1
	}
	if !(t.Speed >= 1e-6 && t.Speed <= 1e6) {
		return nil, refuse("trace-speed", "%g, must be 0.000001 to 1000000", t.Speed)
	}
	out := &trace{Trace: t, names: names, shares: shares}
	f, err := os.Open(t.File)
	if err != nil {
		return nil, wrap("trace", err)
	}
	defer f.Close()
	counts, err := out.sum(f)
	if err != nil {
		return nil, wrap("trace", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, wrap("trace", err)
	}
	if counts {
		return out, out.measureCounts(f)
	}
	return out, out.measureArrivals(f)
}

// sum fills in the hash, and tells whether the file holds counts.
func (t *trace) sum(f io.Reader) (counts bool, err error) {
	h := sha256.New()
	head := make([]byte, len("\xef\xbb\xbf\"HashOwner"))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n == 0 {
		return false, fmt.Errorf("%s is empty", t.File)
	}
	h.Write(head[:n])
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if t.Sum != "" && t.Sum != sum {
		return false, fmt.Errorf("%s has changed: its SHA-256 is %s, not %s", t.File, sum, t.Sum)
	}
	t.Sum = sum
	return strings.Contains(string(head[:n]), "HashOwn"), nil
}

// measureArrivals reads all arrivals: how many there are of each model, and
// over which span.
func (t *trace) measureArrivals(f io.Reader) error {
	switch t.Models {
	case "":
		t.Models = drawn
	case drawn, column:
	default:
		return refuse("trace-models", "%q, must be drawn (by --popularity) or column (the file's second)", t.Models)
	}
	source, err := workload.NewTrace(f, t.config())
	if err != nil {
		return wrap("trace", err)
	}
	per, all, last := make([]float64, len(t.names)), 0.0, mono.Time(0)
	for at, model, ok := source.Next(); ok; at, model, ok = source.Next() {
		per[model]++
		all++
		last = at
	}
	if err := source.Err(); err != nil {
		return wrap("trace", err)
	}
	if all < 2 || last == 0 {
		return refuse("trace", "%s: %.0f arrivals within %v have no rate", t.File, all, last)
	}
	t.rate = (all - 1) / last.Sub(0).Seconds()
	t.length = mono.Dur(float64(last) / (all - 1) * all)
	if t.Models == column {
		for i := range per {
			per[i] /= all
		}
		t.shares = per
	}
	return nil
}

// config is how the file is read as it is.
func (t *trace) config() workload.TraceConfig {
	c := workload.TraceConfig{Name: t.File, Shares: t.shares}
	if t.Models == column {
		c.Index = map[string]int{}
		for i, name := range t.names {
			c.Index[name] = i
		}
	}
	return c
}

// measureCounts lets package workload check the file, then sums its counts:
// as arrivals they would be a thousand times as many steps.
func (t *trace) measureCounts(f *os.File) error {
	if t.Models != "" && t.Models != rows {
		return refuse("trace-models", "%q: rows of counts go to the models by turns, leave it out", t.Models)
	}
	if t.Loop {
		return refuse("trace-loop", "%s holds counts for each minute, which are replayed once", t.File)
	}
	t.Models = rows
	if _, err := workload.NewFunctions(f, workload.FunctionsConfig{Name: t.File, Models: len(t.names)}); err != nil {
		return wrap("trace", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return wrap("trace", err)
	}
	per, all, minutes := make([]float64, len(t.names)), 0.0, 0
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for row := -1; scan.Scan(); {
		if strings.TrimSpace(scan.Text()) == "" {
			continue
		}
		fields := strings.Split(scan.Text(), ",")[4:]
		minutes = len(fields)
		for _, text := range fields {
			if n, err := strconv.ParseFloat(strings.Trim(strings.TrimSpace(text), `"`), 64); err == nil && row >= 0 {
				per[row%len(per)] += n
				all += n
			}
		}
		row++
	}
	if err := scan.Err(); err != nil || all == 0 {
		return refuse("trace", "%s: no request in %d minutes (%v)", t.File, minutes, err)
	}
	for i := range per {
		per[i] /= all
	}
	t.length = mono.Dur(minutes) * 60 * mono.Second
	t.shares, t.rate = per, all/t.length.Seconds()
	return nil
}

// covers demands that a trace lasts as long as the run.
func (t *trace) covers(run mono.Dur) error {
	if lasts := mono.FromSeconds(t.length.Seconds() / t.Speed); !t.Loop && lasts < run {
		return refuse("trace", "%s lasts %v at --trace-speed %g, but --warmup and --duration need %v: shorten them or set --trace-loop", t.File, lasts.Std(), t.Speed, run.Std())
	}
	return nil
}

// replay is the trace in one run. Close tells of what was wrong in the file.
type replay struct {
	workload.Source
	file *os.File
	err  func() error
}

// open begins a replay, at a rate in requests/s or, if 0, as it is.
func (t *trace) open(rate float64, seed uint64) (*replay, error) {
	f, err := os.Open(t.File)
	if err != nil {
		return nil, wrap("trace", err)
	}
	r := &replay{file: f, err: func() error { return nil }}
	if t.Models == rows {
		c := workload.FunctionsConfig{Name: t.File, Models: len(t.names), Speed: t.Speed, Seed: seed, Scale: rate / (t.rate * t.Speed)}
		r.Source, err = workload.NewFunctions(f, c)
	} else {
		c := t.config()
		c.Speed, c.Rate, c.Mean, c.Loop, c.Seed = t.Speed, rate, t.rate, t.Loop, seed
		var source *workload.Trace
		if source, err = workload.NewTrace(f, c); err == nil {
			r.Source, r.err = source, source.Err
		}
	}
	if err != nil {
		f.Close()
		return nil, wrap("trace", err)
	}
	return r, nil
}

// Close ends the replay.
func (r *replay) Close() error {
	if err := r.err(); err != nil {
		r.file.Close()
		return wrap("trace", err)
	}
	return r.file.Close()
}
