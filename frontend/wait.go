package frontend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport"
)

// othersWait is how long WaitAdmitted waits for further schedulers once one is there.
const othersWait = time.Second

// WaitAdmitted waits until the scheduler has admitted this frontend, or ctx ends; the error
// says what was in the way. Of a group it waits for the one that leads. Of several schedulers one is enough, since the others' models are
// not to wait for it; but who asks right after it should find all that there is, so it waits a
// second more for those that neither answer nor cannot be reached. The log names those.
func (c *Client) WaitAdmitted(ctx context.Context) error {
	err := c.wait(ctx, func() bool { return slices.ContainsFunc(c.groups, (*group).told) })
	if err != nil {
		return &Error{Kind: ErrUnavailable, Msg: c.troubles(err)}
	}
	rest, cancel := context.WithTimeout(ctx, othersWait)
	defer cancel()
	_ = c.wait(rest, func() bool {
		return !slices.ContainsFunc(c.groups, func(g *group) bool { return !g.told() && !g.troubled() })
	})
	return nil
}

// troubles are why no scheduler has admitted us; err: where nothing else is known.
func (c *Client) troubles(err error) string {
	var all []string
	for _, u := range c.uplinks {
		why := err
		if u.group.only == nil && u.up() && u.group.leads.Load() == nil {
			why = errors.New("it does not lead its group (are its schedulers started with --standby?)")
		}
		if p := u.trouble.Load(); p != nil {
			why = *p
		}
		all = append(all, fmt.Sprintf("scheduler %s: %v", u.address, why))
	}
	return strings.Join(all, "; ")
}

// Ready reports whether a scheduler has admitted this frontend and it is not draining.
func (c *Client) Ready() bool {
	return !c.draining.Load() && slices.ContainsFunc(c.groups, (*group).up)
}

// WaitReady waits until each named model has a backend, and its scheduler this frontend.
func (c *Client) WaitReady(ctx context.Context, models ...string) error {
	return c.wait(ctx, func() bool {
		if !c.Ready() {
			return false
		}
		for _, name := range models {
			if e, err := c.Model(name, ""); err != nil || !e.Ready {
				return false
			}
		}
		return true
	})
}

// wait waits for a condition that catalogues and admissions decide.
func (c *Client) wait(ctx context.Context, ok func() bool) error {
	for {
		changed := *c.changed.Load()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.stop:
			return transport.ErrClosed
		}
	}
}

// signal ends every wait for a moment.
func (c *Client) signal() {
	next := make(chan struct{})
	close(*c.changed.Swap(&next))
}
