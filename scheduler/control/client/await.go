package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// FailedError is of a version that failed. The control plane tries it again by itself.
type FailedError struct {
	Key     string // "name/version"
	Version api.Version
}

func (e *FailedError) Error() string {
	text := fmt.Sprintf("model %s failed: %s", e.Key, e.Version.Reason)
	if !e.Version.Next.IsZero() {
		text += fmt.Sprintf(" (tries so far: %d, the next at %s)", e.Version.Tries, e.Version.Next.Local().Format(time.TimeOnly))
	}
	return text
}

// AwaitServed waits until a version is served, has failed (*FailedError), or is not to be
// served at all. told, which may be nil, hears of each change, and of each time that the
// control plane does not answer: then it waits on, until ctx ends.
func (c *Client) AwaitServed(ctx context.Context, name, version string, told func(api.Version, error)) (api.Version, error) {
	if told == nil {
		told = func(api.Version, error) {}
	}
	var last api.Version
	for since := uint64(0); ; {
		m, err := c.Await(ctx, name, since)
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
		if lost(err) {
			told(last, err)
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return last, ctx.Err()
			}
		}
		if err != nil {
			return last, err
		}
		if m.Revision == since {
			continue
		}
		since = m.Revision
		v := m.Find(version)
		if v == nil {
			return last, api.NotFound("model %s/%s was removed meanwhile", name, version)
		}
		last = *v
		told(last, nil)
		switch {
		case !m.Wanted(version):
			return last, idle(&m, version)
		case last.State == api.Serving:
			return last, nil
		case last.State == api.Failed:
			return last, &FailedError{Key: name + "/" + version, Version: last}
		}
	}
}

// lost is whether an error may pass by itself.
func lost(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u) || errors.Is(err, &api.Error{Kind: api.KindAway})
}

// idle says why a version will not be served.
func idle(m *api.Model, version string) error {
	if m.Desired == api.Stopped {
		return api.Conflict("model %s is stopped: symphony model update %s --load has it served", m.Name, m.Name)
	}
	return api.Conflict("version %s of model %s is not to be served: its versions policy (%s) leaves it out: symphony model versions %s --policy all, or --listed %s", version, m.Name, m.Policy.Kind, m.Name, version)
}
