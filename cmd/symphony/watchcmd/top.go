package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Top is `symphony top`.
type Top struct {
	Admin `embed:""`
	Once  time.Duration `help:"Look for so long, print one picture, and end: for scripts and for where there is no terminal." placeholder:"SPAN"`
	Width int           `help:"Columns of that picture." default:"80"`
	Lines int           `help:"Lines of it." default:"24"`
}

// Help says what the columns are.
func (Top) Help() string {
	return `The picture of the page in a terminal, until q or Ctrl-C. Each GPU is a sign, higher the more of the last seconds it
was at work; a dot is an idle one, a space one that is away. OFFERED and GOOD are requests/s,
BAD is dropped or late of what was answered, P99 up to the end of the batch, against the SLO.

Where weights come and go (a pool with paged), a table says of each GPU: its PAGES for weights, how many are FREE, MODELS whose
weights are there or on their way; loads a second of models that no GPU had (COLD) and of further ones (COPY); weights that went
a second, for a load (EVICT) or otherwise (OTHER: with their model, or nobody counted on them); the share of the time that the
LOADER copies; and how long ago the copy was used that is the next to go (OLDEST). And of each model: how many GPUs
hold it (HELD), the share of its requests that found its weights there (HIT), its LOADS so far, and the work that waits for it and
that its holders cannot do in time (UNMET).`
}

const (
	maxLook = 10 * mono.Second
	// redraw is between two pictures.
	redraw = 500 * time.Millisecond
	// reachMost is how long --once waits until a scheduler begins to tell.
	reachMost = 10 * time.Second
	// again is between two attempts to reach a scheduler that went.
	again = time.Second
	// silence is how long nothing may come before that is said.
	silence = 4 * time.Second
)

// Run follows a scheduler.
func (c Top) Run() error {
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	if c.Once > 0 {
		return c.once(ctx, os.Stdout)
	}
	if !cli.IsTerminal(os.Stdout) {
		return errors.New("standard output is no terminal: --once 3s prints one picture")
	}
	return c.follows(ctx, os.Stdin, os.Stdout)
}

// once prints one picture.
func (c Top) once(ctx context.Context, out io.Writer) error {
	if c.Width < 40 || c.Width > 500 || c.Lines < 8 || c.Lines > 500 {
		return fmt.Errorf("--width %d and --lines %d: must be 40 to 500 and 8 to 500", c.Width, c.Lines)
	}
	limit, done := context.WithCancel(ctx)
	defer done()
	over := time.AfterFunc(reachMost, done)
	defer over.Stop()
	p, begun := newPicture(), false
	err := c.Admin.follow(limit, p.head, p.take, func() error {
		if !begun { // to reach it is no part of the look
			begun = true
			over.Reset(c.Once)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case !begun && limit.Err() != nil:
		return fmt.Errorf("%s took the call and told nothing for %v: is it a scheduler's admin address?", c.Admin.Admin, reachMost)
	case err != nil:
		return err
	}
	for _, line := range p.lines(c.Width, c.Lines) {
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	return nil
}

// follows draws until q, Ctrl-C or SIGHUP (of which the terminal may be there yet, and is to be as it was); a scheduler
// that goes is waited for.
func (c Top) follows(ctx context.Context, in, out *os.File) error {
	ctx, cancel := signal.NotifyContext(ctx, unix.SIGHUP)
	defer cancel()
	l := &live{picture: newPicture(), failed: make(chan error, 1)}
	go l.feed(ctx, c.Admin)
	s := openScreen(in, out)
	defer s.close()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		width, height := s.size()
		s.draw(l.lines(width, height), width, height)
		select {
		case <-ctx.Done():
			return nil
		case err := <-l.failed: // it was never there: a wrong address
			return err
		case key := <-s.keys:
			if key == 'q' || key == 'Q' {
				return nil
			}
		case <-resized:
		case <-tick.C:
		}
	}
}

// live is a picture that a scheduler's stream is taken into while it is drawn.
type live struct {
	failed chan error // why the scheduler was never reached

	mu      sync.Mutex // Guards what follows.
	picture *picture
	heard   time.Time // of the scheduler, last; zero: never
	trouble string
}

// feed follows the stream until ctx ends, again and again once it was there.
func (l *live) feed(ctx context.Context, a Admin) {
	for ctx.Err() == nil {
		err := a.follow(ctx, l.begin, l.take, l.chunk)
		l.mu.Lock()
		begun := !l.heard.IsZero()
		if err != nil {
			l.trouble = "no connection: " + err.Error()
		}
		l.mu.Unlock()
		if !begun && err != nil {
			l.failed <- err
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// begin is the head of a stream: what was before is another's, or has a gap.
func (l *live) begin(h watch.Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.picture = newPicture()
	l.picture.head(h)
}

func (l *live) take(e *watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.picture.take(e)
}

func (l *live) chunk() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard, l.trouble = time.Now(), ""
	return nil
}

// lines are the picture of now, with what is wrong.
func (l *live) lines(width, height int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.heard.IsZero():
		return []string{fit("symphony top  waiting for the scheduler", width)}
	case l.trouble != "":
		l.picture.trouble = l.trouble
	default:
		l.picture.trouble = ""
		if quiet := time.Since(l.heard); quiet > silence {
			l.picture.trouble = fmt.Sprintf("nothing comes from the scheduler for %.0f s", quiet.Seconds())
		}
	}
	return l.picture.lines(width, height)
}

// picture is what top shows.
type picture struct {
	state   *watch.State
	history *watch.History
	title   string
	trouble string
}

func newPicture() *picture {
	return &picture{state: &watch.State{}, history: watch.NewHistory(maxLook, 1<<25)}
}

func (p *picture) head(h watch.Head) { p.title = h.Title }

func (p *picture) take(e *watch.Event) {
	if p.state.Apply(e); e.Kind == watch.Batch || e.Kind == watch.Done || e.Kind == watch.Drop {
		p.history.Add(e)
	}
}
