package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	return `The picture of the page in a terminal, until Ctrl-C. Each GPU is a sign, higher the more of the last seconds it
was at work; a dot is an idle one, a space one that is away. OFFERED and GOOD are requests/s,
BAD is dropped or late of what was answered, P99 up to the end of the batch, against the SLO.`
}

const (
	maxLook = 10 * mono.Second
	// redraw is between two pictures.
	redraw = 500 * time.Millisecond
	// reachMost is how long --once waits until a scheduler begins to tell.
	reachMost = 10 * time.Second
	// again is between two attempts to reach a scheduler that went.
	again = time.Second
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
	fmt.Print("\x1b[?1049h\x1b[?25l") // a screen of its own, no cursor
	defer fmt.Print("\x1b[?25h\x1b[?1049l")
	return c.follows(ctx, os.Stdout)
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

// follows draws until Ctrl-C; a scheduler that goes is waited for.
func (c Top) follows(ctx context.Context, out *os.File) error {
	p := newPicture()
	begun, drawn := false, time.Time{}
	for ctx.Err() == nil {
		err := c.Admin.follow(ctx, p.head, p.take, func() error {
			begun = true
			if now := time.Now(); now.Sub(drawn) >= redraw {
				drawn = now
				draw(out, p, "")
			}
			return nil
		})
		if err != nil && !begun {
			return err // it was never there: a wrong address
		}
		if ctx.Err() == nil {
			draw(out, p, "no connection: "+err.Error())
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
			p = newPicture()
		}
	}
	return nil
}

// draw puts the picture on the screen, from its first place on.
func draw(out *os.File, p *picture, trouble string) {
	width, height := 80, 24
	if size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		width, height = int(size.Col), int(size.Row)
	}
	p.trouble = trouble
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range p.lines(width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, _ = out.WriteString(b.String())
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
