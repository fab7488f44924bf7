package simcmd

import (
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"
)

// progress is how far the simulations are, and its lines.
type progress struct {
	shares []atomic.Uint64 // of each simulation, bits of a float64
}

func newProgress(n int) *progress { return &progress{make([]atomic.Uint64, n)} }

// set tells the share of a simulation that is done; a search that takes more
// runs than was expected stays just below all.
func (p *progress) set(place int, share float64) {
	p.shares[place].Store(math.Float64bits(min(share, 0.99)))
}

// share is that of all simulations together.
func (p *progress) share() float64 {
	sum := 0.0
	for i := range p.shares {
		sum += math.Float64frombits(p.shares[i].Load())
	}
	return sum / float64(len(p.shares))
}

// progressForm is how the progress is shown.
type progressForm int

const (
	progressNone     progressForm = iota
	progressPlain                 // a line now and then, for a file or a pipe
	progressTerminal              // one line, written over
)

// Spans between lines.
const (
	everyPlain    = 10 * time.Second
	everyTerminal = 500 * time.Millisecond
)

// show prints lines until the returned func is called; every is between plain
// ones.
func (p *progress) show(w io.Writer, form progressForm, every time.Duration) (end func()) {
	if form == progressNone || len(p.shares) == 0 {
		return func() {}
	}
	before, behind := "", "\n"
	if form == progressTerminal {
		before, behind, every = "\r\x1b[K", "", everyTerminal
	}
	start, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, before)
				return
			case <-tick.C:
				fmt.Fprint(w, before, progressLine(p.share(), time.Since(start)), behind)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// progressLine tells the time that is left, if so far is anything to go by.
func progressLine(share float64, passed time.Duration) string {
	line := fmt.Sprintf("%3.0f %% after %v", 100*share, passed.Round(time.Second))
	if share > 0.01 {
		left := time.Duration(float64(passed) * (1 - share) / share)
		line += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return line
}
