package paper

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells how far a figure is: on a terminal in one line that is
// written over, elsewhere in a line now and then.
type progress struct {
	w        io.Writer // nil: says nothing
	terminal bool

	mu     sync.Mutex // Guards what follows.
	figure string
	since  time.Time // begin of the figure
	shown  time.Time
	count  [2]int     // jobs done, all
	weight [2]float64 // of those computed here: done, all
	whole  bool       // the line that says that all are done has been written
	wide   int        // of the line that stands on the terminal
}

// Spans between lines.
const (
	everyPlain    = 10 * time.Second
	everyTerminal = 200 * time.Millisecond
)

func newProgress(w io.Writer, terminal bool) *progress {
	return &progress{w: w, terminal: terminal}
}

// begin starts a figure.
func (p *progress) begin(figure string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
	p.figure, p.since, p.count, p.weight = figure, time.Now(), [2]int{}, [2]float64{}
	p.shown, p.whole = p.since, false
}

// expect adds a job; one that has its result already is done.
func (p *progress) expect(weight float64, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[1]++
	p.whole = false
	p.weight[1] += weight
	if done {
		p.count[0]++
	}
}

// done counts a job that was computed.
func (p *progress) done(weight float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[0]++
	p.weight[0] += weight
	p.show()
}

// watch tells the time that is left while a long job runs, until the returned
// func is called.
func (p *progress) watch() (stop func()) {
	ended := make(chan struct{})
	go func() {
		for t := time.NewTicker(everyTerminal); ; {
			select {
			case <-ended:
				t.Stop()
				return
			case <-t.C:
				p.mu.Lock()
				p.show()
				p.mu.Unlock()
			}
		}
	}()
	return func() { close(ended) }
}

// end leaves the terminal's line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
}

func (p *progress) show() {
	every := everyPlain
	if p.terminal {
		every = everyTerminal
	}
	now := time.Now()
	last := p.count[0] == p.count[1] && !p.whole
	if p.w == nil || now.Sub(p.shown) < every && !last {
		return
	}
	p.shown, p.whole = now, p.count[0] == p.count[1]
	line := fmt.Sprintf("%s: %d of %d jobs", p.figure, p.count[0], p.count[1])
	if p.weight[0] > 0 && p.count[0] < p.count[1] {
		left := now.Sub(p.since).Seconds() * (p.weight[1] - p.weight[0]) / p.weight[0]
		line += fmt.Sprintf(", about %s left", time.Duration(left*float64(time.Second)).Round(time.Second))
	}
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.wide, line)
	p.wide = len(line)
}

func (p *progress) endLine() {
	if p.w != nil && p.terminal && p.wide > 0 {
		fmt.Fprintln(p.w)
	}
	p.wide = 0
}
