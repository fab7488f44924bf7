package controlcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// atOnce is how many calls a command has under way.
const atOnce = 16

// told is how many failures are told one by one.
const told = 20

// addAll adds what the file lists, all checked before the first is ordered.
func (c addCmd) addAll(s *session) error {
	patch, err := c.Settings.patch()
	switch {
	case err != nil:
		return err
	case c.Name != "" || c.ModelVersion != "" || c.Source != "" || c.Digest != "":
		return errors.New("--from lists names, versions, sources and digests: give them there alone")
	}
	entries, err := s.read(c.From)
	if err != nil {
		return err
	}
	seen := map[string]string{}
	for i := range entries {
		e := &entries[i]
		err := e.checkKey(true)
		if err == nil {
			spec := e.spec()
			err = spec.Check()
		}
		if first, twice := seen[e.key()]; err == nil && twice {
			err = fmt.Errorf("model %s is at %s already", e.key(), first)
		}
		if err != nil {
			return fmt.Errorf("--from: %s: %w", e.at, err)
		}
		seen[e.key()] = e.at
	}
	err = s.each("added", entries, func(e *entry) error {
		spec := e.spec()
		patch.Apply(&spec.Settings)
		_, err := s.PutVersion(s.ctx, e.Name, e.Version, spec)
		return err
	})
	if err != nil || !c.Wait {
		return err
	}
	return c.awaitAll(s, entries)
}

func (c addCmd) awaitAll(s *session, entries []entry) error {
	ctx, cancel := s.timed(c.Timeout)
	defer cancel()
	err := s.each("served", entries, func(e *entry) error {
		_, err := s.AwaitServed(ctx, e.Name, e.Version, nil)
		if ctxEnded(err) {
			return context.Cause(ctx)
		}
		return err
	})
	if ctx.Err() != nil && s.ctx.Err() == nil {
		return fmt.Errorf("not within %v; the orders stand: symphony model list tells what becomes of them", c.Timeout)
	}
	return err
}

// tally is the report of a command over many.
type tally struct {
	Done   int       `json:"done"`
	Failed []failure `json:"failed"`
}

type failure struct {
	Model string `json:"model"`
	Error string `json:"error"`
}

// each does something for many entries, some at once. Failures do not end it, but for those
// that would meet all the others, too.
func (s *session) each(done string, entries []entry, do func(*entry) error) error {
	var mu sync.Mutex
	failed := map[int]error{}
	var n, next atomic.Int64
	var all sync.WaitGroup
	var fatal atomic.Pointer[error]
	line := progress{s: s, what: done}
	for range min(atOnce, len(entries)) {
		all.Go(func() {
			for s.ctx.Err() == nil && fatal.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(entries) {
					return
				}
				err := do(&entries[i])
				if hopeless(err) {
					fatal.CompareAndSwap(nil, &err)
				}
				mu.Lock()
				if err != nil {
					failed[i] = err
				} else {
					n.Add(1)
				}
				line.count(int(n.Load()), len(entries))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	line.end()
	return s.reckon(done, entries, int(n.Load()), failed, fatal.Load())
}

// hopeless is whether an error would meet every other call: nobody answers, or nobody may ask.
func hopeless(err error) bool {
	return err != nil && (isLost(err) || errors.Is(err, &api.Error{Kind: api.KindUnauthorized}) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// reckon prints what came of many.
func (s *session) reckon(done string, entries []entry, n int, failed map[int]error, fatal *error) error {
	t := tally{Done: n, Failed: []failure{}}
	var order []int
	for i := range failed {
		order = append(order, i)
	}
	slices.Sort(order)
	for _, i := range order {
		t.Failed = append(t.Failed, failure{entries[i].key(), failed[i].Error()})
	}
	err := s.print(t, func() {
		fmt.Fprintf(s.out, "%d of %d %s\n", n, len(entries), done)
		for i, f := range t.Failed {
			if i == told {
				fmt.Fprintf(s.out, "and %d others (--json lists all)\n", len(t.Failed)-told)
				break
			}
			fmt.Fprintf(s.out, "%s: %s\n", f.Model, f.Error)
		}
	})
	switch {
	case err != nil:
		return err
	case s.ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d of %d; what was ordered stands, and may be ordered again", n, len(entries))
	case fatal != nil:
		return fmt.Errorf("given up after %d of %d: %w", n, len(entries), *fatal)
	case len(failed) > 0:
		return fmt.Errorf("%d of %d failed", len(failed), len(entries))
	}
	return nil
}

// progress is a line that tells how far it is: on a terminal it changes in place, elsewhere
// changes of state have lines of their own, and counts none.
type progress struct {
	s     *session
	what  string
	last  string
	shown time.Time
}

// told is of one version.
func (p *progress) told(v api.Version, err error) {
	text := words(&v)
	if err != nil {
		text = "the control plane does not answer; waiting on: " + err.Error()
	}
	switch {
	case text == p.last:
	case p.s.live:
		fmt.Fprintf(p.s.notes, "\r\x1b[K%s: %s", p.what, text)
	case v.State != api.Fetching || v.Done == 0:
		p.s.note("%s: %s", p.what, text)
	}
	p.last = text
}

// count is of many; not called twice at a time.
func (p *progress) count(n, of int) {
	if p.s.live && time.Since(p.shown) > 100*time.Millisecond {
		p.shown, p.last = time.Now(), "counted"
		fmt.Fprintf(p.s.notes, "\r\x1b[K%d of %d %s", n, of, p.what)
	}
}

func (p *progress) end() {
	if p.s.live && p.last != "" {
		fmt.Fprint(p.s.notes, "\r\x1b[K")
	}
}
