package watchcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/scheduler/watch/ui"
)

// Explain is `symphony explain`.
type Explain struct {
	Admin   `embed:""`
	Request string `arg:"" optional:"" help:"The request: FRONTEND-NUMBER, as the page and this command's list show it." placeholder:"ID"`
	Next    bool   `help:"Wait for the next request that is dropped or late, and tell of that one."`
	Model   string `help:"With --next or in the list: of this model only." placeholder:"NAME"`
	File    string `help:"Read a saved schedule instead of asking a scheduler." placeholder:"FILE"`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// Help says what is known, and from when on.
func (Explain) Help() string {
	return `Tells when a request came, by when it had to start, who had the GPUs meanwhile, which batch had the
one that it needed, and what would have saved it. Without an ID it lists those that were dropped or
late last.

Events are kept for a minute, and only while somebody looks: while the page or symphony top is open,
and for half a minute after a question like this one. scheduler.watch: always keeps them always.`
}

// Run asks and prints.
func (c Explain) Run() error {
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	out := &cli.Checked{To: os.Stdout}
	return errors.Join(c.run(ctx, out), out.Err)
}

func (c Explain) run(ctx context.Context, out io.Writer) error {
	if c.Request != "" && (c.Next || c.Model != "") {
		return errors.New("an ID names one request: leave out --next and --model")
	}
	if c.Next && c.File != "" {
		return errors.New("--next waits for what happens, and in a file nothing does: leave out --file")
	}
	var ask asker = scheduler{c.Admin}
	if c.File != "" {
		hub, err := openFile(c.File)
		if err != nil {
			return err
		}
		defer hub.Close()
		ask = saved{hub}
	}
	if c.Next {
		id, err := c.next(ctx)
		if err != nil || id == "" {
			return err
		}
		c.Request = id
	}
	if c.Request == "" {
		return c.list(ctx, out, ask)
	}
	key, err := watch.ParseKey(c.Request)
	if err != nil {
		return err
	}
	return ask.tell(ctx, out, key, c.JSON)
}

// asker knows stories: a scheduler, or a file.
type asker interface {
	tell(ctx context.Context, out io.Writer, key watch.Key, asJSON bool) error
	lost(ctx context.Context) ([]ui.Lost, error)
}

// scheduler is one that runs.
type scheduler struct{ Admin }

func (s scheduler) tell(ctx context.Context, out io.Writer, key watch.Key, asJSON bool) error {
	path := "story?request=" + url.QueryEscape(key.String())
	if !asJSON {
		path += "&format=text"
	}
	resp, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(out, resp.Body)
	return err
}

func (s scheduler) lost(ctx context.Context) (all []ui.Lost, err error) {
	resp, err := s.get(ctx, "lost?most=100")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return all, nil
}

// saved is a file.
type saved struct{ *ui.Hub }

func (s saved) tell(_ context.Context, out io.Writer, key watch.Key, asJSON bool) error {
	doc, text, err := s.Story(key)
	switch {
	case err != nil:
		return err
	case asJSON:
		return json.NewEncoder(out).Encode(doc)
	}
	for _, line := range text {
		fmt.Fprintln(out, line)
	}
	return nil
}

func (s saved) lost(context.Context) ([]ui.Lost, error) { return s.Lost(100), nil }

// next waits for a request that is dropped or late; "" when it was interrupted.
func (c Explain) next(ctx context.Context) (id string, err error) {
	state, history := &watch.State{}, watch.NewHistory(maxLook, 1<<26)
	begun := false
	found := errors.New("found")
	err = c.follow(ctx, func(watch.Head) {}, func(e *watch.Event) {
		if state.Apply(e); begun || e.Kind == watch.Batch {
			history.Add(e)
		}
	}, func() error {
		if !begun { // what was kept of before is none that comes
			begun = true
			return nil
		}
		for _, l := range watch.Lost(history, 100) {
			if c.Model == "" || state.Name(l.Model) == c.Model {
				id = l.Key.String()
				return found
			}
		}
		return nil
	})
	if errors.Is(err, found) {
		return id, nil
	}
	return "", err
}

// list prints the last ones.
func (c Explain) list(ctx context.Context, out io.Writer, ask asker) error {
	all, err := ask.lost(ctx)
	if err != nil {
		return err
	}
	kept := all[:0]
	for _, l := range all {
		if c.Model == "" || l.Model == c.Model {
			kept = append(kept, l)
		}
	}
	if c.JSON {
		text := json.NewEncoder(out)
		text.SetIndent("", "  ")
		return text.Encode(kept)
	}
	if len(kept) == 0 {
		fmt.Fprintln(out, "nothing was dropped or late in what is kept; symphony explain --next waits for the next one")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	since := "ago"
	if c.File != "" {
		since = "before the end"
	}
	fmt.Fprintln(w, "ID\tMODEL\tWHAT\tWHEN")
	for _, l := range kept {
		what := l.Outcome + ": " + l.Reason
		if l.Reason == "" {
			what = fmt.Sprintf("late by %.1f ms", l.Late.Millis())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f s %s\n", l.Request, l.Model, what, l.Ago.Seconds(), since)
	}
	return w.Flush()
}
