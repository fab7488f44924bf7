package api

import (
	"context"
	"slices"
	"time"
)

// route is one path of the API.
type route struct {
	name       string // in logs and metrics
	method     string
	pattern    string
	parameters []string
	serve      func(c *call) (any, error)
}

func routes() []route {
	const m = "/v1/models/{name}"
	const v = m + "/versions/{version}"
	return []route{
		{name: "list", method: "GET", pattern: "/v1/models", parameters: []string{"after", "limit", "state"}, serve: (*call).list},
		{name: "show", method: "GET", pattern: m, parameters: []string{"wait", "since"}, serve: (*call).model},
		{name: "remove", method: "DELETE", pattern: m, serve: (*call).deleteModel},
		{name: "add", method: "PUT", pattern: v, serve: (*call).putVersion},
		{name: "remove_version", method: "DELETE", pattern: v, serve: (*call).deleteVersion},
		{name: "settings", method: "PATCH", pattern: m + "/settings", serve: (*call).settings},
		{name: "settings", method: "PATCH", pattern: v + "/settings", serve: (*call).settings},
		{name: "files", method: "PUT", pattern: v + "/files", serve: (*call).files},
		{name: "policy", method: "PUT", pattern: m + "/policy", serve: (*call).policy},
		{name: "shares", method: "PUT", pattern: m + "/shares", serve: (*call).shares},
		{name: "rollback", method: "POST", pattern: m + "/rollback", serve: (*call).rollBack},
		{name: "load", method: "POST", pattern: m + "/load", serve: (*call).load},
		{name: "unload", method: "POST", pattern: m + "/unload", serve: (*call).unload},
		{name: "plan", method: "GET", pattern: "/v1/plan", serve: (*call).plan},
		{name: "put_plan", method: "PUT", pattern: "/v1/plan", serve: (*call).putPlan},
		{name: "history", method: "GET", pattern: "/v1/plan/history", serve: (*call).history},
		{name: "diff", method: "GET", pattern: "/v1/plan/diff", serve: (*call).diff},
		{name: "apply", method: "POST", pattern: "/v1/plan/apply", serve: (*call).apply},
		{name: "pause", method: "POST", pattern: "/v1/plan/pause", serve: (*call).pause},
		{name: "resume", method: "POST", pattern: "/v1/plan/resume", serve: (*call).resume},
		{name: "state", method: "GET", pattern: "/v1/state", serve: (*call).state},
		{name: "advice", method: "GET", pattern: "/v1/advice", serve: (*call).advice},
	}
}

// short bounds a call that does not wait.
func (c *call) short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Context(), c.h.o.CallTime)
}

func (c *call) list() (any, error) {
	limit, err := c.number("limit", PageDefault, PageMax)
	if err != nil {
		return nil, err
	}
	q := Query{After: c.URL.Query().Get("after"), Limit: max(1, int(limit)), State: State(c.URL.Query().Get("state"))}
	if q.State != "" && !slices.Contains(States(), q.State) {
		return nil, Invalid("state", "%.40q is none of %v", q.State, States())
	}
	if len(q.After) > NameMax {
		return nil, Invalid("after", "has %d bytes, at most %d", len(q.After), NameMax)
	}
	ctx, cancel := c.short()
	defer cancel()
	page, err := c.control.List(ctx, q)
	if page.Models == nil {
		page.Models = []Model{}
	}
	return page, err
}

func (c *call) model() (any, error) {
	text := c.URL.Query().Get("wait")
	if text == "" {
		if c.URL.Query().Has("since") {
			return nil, Invalid("since", "goes with wait, like ?wait=30s&since=7")
		}
		ctx, cancel := c.short()
		defer cancel()
		return c.control.Model(ctx, c.PathValue("name"))
	}
	since, err := c.number("since", 0, 1<<63)
	if err != nil {
		return nil, err
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return nil, Invalid("wait", "%.40q is no span of time: write it with its unit, like 30s", text)
	}
	select {
	case c.h.waiting <- struct{}{}:
		defer func() { <-c.h.waiting }()
	default:
		return nil, Away(time.Second, false, "%d calls wait already", c.h.o.Waiting)
	}
	ctx, cancel := context.WithTimeout(c.Context(), min(wait, WaitMax))
	defer cancel()
	go func() {
		select {
		case <-c.h.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	return c.control.Await(ctx, c.PathValue("name"), since)
}

// change runs a call that changes a model, with its body.
func (c *call) change(body checked, needed bool, do func(ctx context.Context, name, version string) (Model, error)) (any, error) {
	if body != nil {
		if err := readBody(c.Request, body, needed); err != nil {
			return nil, err
		}
	}
	ctx, cancel := c.short()
	defer cancel()
	return do(ctx, c.PathValue("name"), c.PathValue("version"))
}

func (c *call) putVersion() (any, error) {
	var spec VersionSpec
	return c.change(&spec, true, func(ctx context.Context, name, version string) (Model, error) {
		return c.control.PutVersion(ctx, name, version, spec)
	})
}

func (c *call) files() (any, error) {
	var f Files
	return c.change(&f, true, func(ctx context.Context, name, version string) (Model, error) {
		return c.control.SetFiles(ctx, name, version, f)
	})
}

func (c *call) deleteVersion() (any, error) { return c.change(nil, false, c.control.DeleteVersion) }

func (c *call) deleteModel() (any, error) {
	ctx, cancel := c.short()
	defer cancel()
	return nil, c.control.DeleteModel(ctx, c.PathValue("name"))
}

func (c *call) settings() (any, error) {
	var p Patch
	return c.change(&p, true, func(ctx context.Context, name, version string) (Model, error) {
		if p.Empty() {
			return Model{}, &Error{Kind: KindInvalid, Msg: "the body changes no setting: give slo, max_batch, drop_policy or device_types"}
		}
		return c.control.SetSettings(ctx, name, version, p)
	})
}

func (c *call) policy() (any, error) {
	var p Policy
	return c.change(&p, true, func(ctx context.Context, name, _ string) (Model, error) { return c.control.SetPolicy(ctx, name, p) })
}

func (c *call) shares() (any, error) {
	var s Shares
	return c.change(&s, true, func(ctx context.Context, name, _ string) (Model, error) {
		return c.control.SetShares(ctx, name, s.Shares)
	})
}

func (c *call) rollBack() (any, error) {
	return c.change(nil, false, func(ctx context.Context, name, _ string) (Model, error) { return c.control.RollBack(ctx, name) })
}

func (c *call) load() (any, error) {
	var o LoadOrder
	return c.change(&o, false, func(ctx context.Context, name, _ string) (Model, error) { return c.control.Load(ctx, name, o) })
}

func (c *call) unload() (any, error) {
	return c.change(nil, false, func(ctx context.Context, name, _ string) (Model, error) { return c.control.Unload(ctx, name) })
}

// of runs a call without arguments.
func of[T any](c *call, do func(context.Context) (T, error)) (any, error) {
	ctx, cancel := c.short()
	defer cancel()
	return do(ctx)
}

func (c *call) plan() (any, error)    { return of(c, c.control.Plan) }
func (c *call) history() (any, error) { return of(c, c.control.History) }
func (c *call) diff() (any, error)    { return of(c, c.control.Diff) }
func (c *call) apply() (any, error)   { return of(c, c.control.Apply) }
func (c *call) resume() (any, error)  { return of(c, c.control.Resume) }
func (c *call) state() (any, error)   { return of(c, c.control.State) }
func (c *call) advice() (any, error)  { return of(c, c.control.Advice) }

func (c *call) putPlan() (any, error) {
	var spec PlanSpec
	if err := readBody(c.Request, &spec, true); err != nil {
		return nil, err
	}
	return of(c, func(ctx context.Context) (Plan, error) { return c.control.Put(ctx, spec) })
}

func (c *call) pause() (any, error) {
	var p Pause
	if err := readBody(c.Request, &p, false); err != nil {
		return nil, err
	}
	return of(c, func(ctx context.Context) (Epochs, error) { return c.control.Pause(ctx, p.Why) })
}
