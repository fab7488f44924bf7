package httpbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Way is what is measured: requests to a server.
type Way struct {
	Name    string // binary or JSON
	Server  string // echo or infer
	Address string
	Request []byte
	CPU     func() (mono.Dur, error) // of the server's process
}

// The ways' servers.
const (
	EchoServer  = "echo"
	InferServer = "infer"
)

// Config of a run.
type Config struct {
	Connections int
	Depth       int
	Rounds      int
	Span        time.Duration // of each way in each round
	Generate    func(context.Context, Job) (*Load, error)
	Progress    func(done float64, text string) // nil: nobody is told
}

// Result is a run.
type Result struct {
	Connections int
	Depth       int
	Rounds      int // that were measured whole
	Span        float64
	Interrupted bool `json:",omitzero"`
	Ways        []WayResult
}

// WayResult is one way's rounds.
type WayResult struct {
	Name, Server string
	RequestBytes int
	Rate         Range         // requests/s with status 200
	P50, P99     Range         // ms
	CPU          Range         // microseconds of the server's process for each reply
	Refused      map[int]int64 `json:",omitempty"`
	Loads        []Load
	cpu          []float64
}

// Range is the median of the rounds, the least and the most.
type Range struct{ Median, Min, Max float64 }

// ErrNothing: the run was interrupted before a round was whole.
var ErrNothing = errors.New("interrupted before the end of the first round: nothing was measured")

// warmUp is of each way, before the rounds.
const warmUp = 500 * time.Millisecond

// Measure lets the ways take turns. Where ctx ends it, the Result holds the rounds that
// are whole.
func Measure(ctx context.Context, c Config, ways []Way) (*Result, error) {
	r := &Result{Connections: c.Connections, Depth: c.Depth, Span: c.Span.Seconds()}
	for i := range ways {
		r.Ways = append(r.Ways, WayResult{Name: ways[i].Name, Server: ways[i].Server, RequestBytes: len(ways[i].Request), Refused: map[int]int64{}})
	}
	for round := -1; round < c.Rounds; round++ {
		for i := range ways {
			if c.Progress != nil {
				done := max(0, float64(round*len(ways)+i)/float64(c.Rounds*len(ways)))
				c.Progress(done, fmt.Sprintf("round %d of %d, %s %s", max(round, 0)+1, c.Rounds, ways[i].Name, ways[i].Server))
			}
			if err := r.turn(ctx, c, &ways[i], i, round); err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				r.Interrupted = true
				return r.sum()
			}
		}
		r.Rounds = round + 1
	}
	return r.sum()
}

// turn measures one way once; round -1 only warms up.
func (r *Result) turn(ctx context.Context, c Config, w *Way, i, round int) error {
	job := Job{Address: w.Address, Request: w.Request, Connections: c.Connections, Depth: c.Depth, Span: c.Span}
	if round < 0 {
		job.Span = min(c.Span, warmUp)
	}
	before, err := w.CPU()
	if err != nil {
		return err
	}
	l, err := c.Generate(ctx, job)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the generator was ended, too
		}
		return fmt.Errorf("%s %s: %w", w.Name, w.Server, err)
	}
	after, err := w.CPU()
	if err != nil || round < 0 || ctx.Err() != nil {
		return err
	}
	all := l.OK
	out := &r.Ways[i]
	for status, n := range l.Refused {
		out.Refused[status] += n
		all += n
	}
	out.Loads = append(out.Loads, *l)
	out.cpu = append(out.cpu, float64(after-before)/1e3/float64(max(all, 1)))
	return nil
}

// sum sums up the rounds that every way has.
func (r *Result) sum() (*Result, error) {
	if r.Rounds == 0 {
		return nil, ErrNothing
	}
	for i := range r.Ways {
		w := &r.Ways[i]
		w.Loads = w.Loads[:r.Rounds]
		of := func(f func(*Load) float64) Range {
			v := make([]float64, 0, len(w.Loads))
			for k := range w.Loads {
				v = append(v, f(&w.Loads[k]))
			}
			return rangeOf(v)
		}
		w.Rate = of((*Load).Rate)
		w.P50, w.P99 = of(func(l *Load) float64 { return l.P50 }), of(func(l *Load) float64 { return l.P99 })
		w.CPU = rangeOf(w.cpu[:r.Rounds])
	}
	return r, nil
}

func rangeOf(v []float64) Range {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return Range{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// Ratio is a way's rate as a share of its echo's, round by round; false: there is none.
func (r *Result) Ratio(name string) (Range, bool) {
	var rates [2][]float64
	for i := range r.Ways {
		w := &r.Ways[i]
		if w.Name != name {
			continue
		}
		k := 0
		if w.Server == InferServer {
			k = 1
		}
		for j := range w.Loads {
			rates[k] = append(rates[k], w.Loads[j].Rate())
		}
	}
	if len(rates[0]) == 0 || len(rates[0]) != len(rates[1]) {
		return Range{}, false
	}
	ratios := make([]float64, 0, len(rates[0]))
	for j := range rates[0] {
		ratios = append(ratios, rates[1][j]/max(rates[0][j], 1e-9))
	}
	out := rangeOf(ratios)
	out.Median = rangeOf(rates[1]).Median / max(rangeOf(rates[0]).Median, 1e-9)
	return out, true
}
