// Package client is the Go client of the control plane's HTTP API (package api). A Client is
// an api.Control: what works against the one works against the other.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:8002", Token: token})
//	m, err := c.PutVersion(ctx, "resnet50", "2", api.VersionSpec{Source: "file:///models/resnet50"})
//	v, err := c.AwaitServed(ctx, "resnet50", "2", nil)
//
// Promises:
//
//  1. A call ends within Options.Timeout for each try, and is tried again for Options.Patience
//     while nobody answers or the store is away. What may have happened already and must not
//     happen twice (roll-back, apply) is not tried again: the error says that it is not known.
//     A deletion that is tried again and finds nothing left is done.
//  2. Errors are *api.Error, as the control plane said them, or *UnreachableError.
//  3. It holds connections and nothing else: no goroutine is left after a call.
package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// DefaultURL is where the control plane listens where nothing else is said.
const DefaultURL = "http://127.0.0.1:8002"

// Options of a Client. Zero values mean the defaults in brackets.
type Options struct {
	URL       string            // [DefaultURL]
	Token     string            // [none]
	Timeout   time.Duration     // of one try of a call that does not wait [20 s]
	Patience  time.Duration     // how long a call is tried again [0: not at all]
	Transport http.RoundTripper // [one of its own]
}

// Client is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client
	base string
}

// The client and the controller are the same to whoever calls.
var _ api.Control = (*Client)(nil)

// New makes a client. It does not connect: the first call does.
func New(o Options) (*Client, error) {
	if o.URL == "" {
		o.URL = DefaultURL
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("control plane: " + strconv.Quote(o.URL) + " is no address: write it like " + DefaultURL)
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: false}
	}
	return &Client{o: o, base: u.Scheme + "://" + u.Host,
		http: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Close gives the idle connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func path(parts ...string) string {
	p := "/v1/models"
	for _, s := range parts {
		p += "/" + url.PathEscape(s)
	}
	return p
}

// model calls for one model. again: it may be done twice.
func (c *Client) model(ctx context.Context, method, name, version, rest string, body any, again bool) (m api.Model, err error) {
	if err := api.CheckName("name", name); err != nil {
		return m, err
	}
	p := path(name)
	if version != "" {
		if err := api.CheckVersion("version", version); err != nil {
			return m, err
		}
		p = path(name, "versions", version)
	}
	err = c.do(ctx, order{method: method, path: p + rest, body: body, again: again}, &m)
	return m, err
}

// List implements api.Control. See All.
func (c *Client) List(ctx context.Context, q api.Query) (page api.Page, err error) {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	if q.Limit == 0 {
		v.Del("limit")
	}
	if q.After != "" {
		v.Set("after", q.After)
	}
	if q.State != "" {
		v.Set("state", string(q.State))
	}
	err = c.do(ctx, order{method: "GET", path: "/v1/models?" + v.Encode(), again: true}, &page)
	return page, err
}

// All calls f with each model, in the order of names; f's error ends it.
func (c *Client) All(ctx context.Context, state api.State, f func(api.Model) error) error {
	for q := (api.Query{State: state, Limit: api.PageMax}); ; {
		page, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for _, m := range page.Models {
			if err := f(m); err != nil {
				return err
			}
		}
		if page.Next <= q.After { // empty, or a server that would go round
			return nil
		}
		q.After = page.Next
	}
}

// Model implements api.Control.
func (c *Client) Model(ctx context.Context, name string) (api.Model, error) {
	return c.model(ctx, "GET", name, "", "", nil, true)
}

// waitFor is how long a call waits at the control plane before it is made again, and waitLeast
// how long where ctx ends soon.
const (
	waitFor   = 30 * time.Second
	waitLeast = 100 * time.Millisecond
)

// Await implements api.Control, but that it may return the model unchanged before ctx ends:
// ask again.
func (c *Client) Await(ctx context.Context, name string, since uint64) (m api.Model, err error) {
	if err := api.CheckName("name", name); err != nil {
		return m, err
	}
	wait := waitFor
	if d, ok := ctx.Deadline(); ok {
		wait = max(waitLeast, min(wait, time.Until(d)-time.Second))
	}
	p := path(name) + "?wait=" + wait.Round(time.Millisecond).String() + "&since=" + strconv.FormatUint(since, 10)
	err = c.do(ctx, order{method: "GET", path: p, again: true, wait: wait}, &m)
	return m, err
}

// PutVersion implements api.Control.
func (c *Client) PutVersion(ctx context.Context, name, version string, spec api.VersionSpec) (api.Model, error) {
	if err := api.CheckVersion("version", version); err != nil {
		return api.Model{}, err
	}
	return c.model(ctx, "PUT", name, version, "", spec, true)
}

// SetFiles implements api.Control.
func (c *Client) SetFiles(ctx context.Context, name, version string, files api.Files) (api.Model, error) {
	return c.model(ctx, http.MethodPut, name, version, "/files", files, true)
}

// DeleteVersion implements api.Control.
func (c *Client) DeleteVersion(ctx context.Context, name, version string) (api.Model, error) {
	if err := api.CheckVersion("version", version); err != nil {
		return api.Model{}, err
	}
	m, err := c.model(ctx, "DELETE", name, version, "", nil, true)
	if errors.Is(err, errGone) {
		if m, err = c.Model(ctx, name); errors.Is(err, &api.Error{Kind: api.KindNotFound}) { // it was the last one
			return api.Model{Name: name, Versions: []api.Version{}}, nil
		}
	}
	return m, err
}

// DeleteModel implements api.Control.
func (c *Client) DeleteModel(ctx context.Context, name string) error {
	_, err := c.model(ctx, "DELETE", name, "", "", nil, true)
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// SetSettings implements api.Control.
func (c *Client) SetSettings(ctx context.Context, name, version string, patch api.Patch) (api.Model, error) {
	return c.model(ctx, "PATCH", name, version, "/settings", patch, true)
}

// SetPolicy implements api.Control.
func (c *Client) SetPolicy(ctx context.Context, name string, p api.Policy) (api.Model, error) {
	return c.model(ctx, "PUT", name, "", "/policy", p, true)
}

// SetShares implements api.Control.
func (c *Client) SetShares(ctx context.Context, name string, shares []api.Share) (api.Model, error) {
	return c.model(ctx, "PUT", name, "", "/shares", api.Shares{Shares: shares}, true)
}

// RollBack implements api.Control.
func (c *Client) RollBack(ctx context.Context, name string) (api.Model, error) {
	return c.model(ctx, "POST", name, "", "/rollback", nil, false)
}

// Load implements api.Control.
func (c *Client) Load(ctx context.Context, name string, o api.LoadOrder) (api.Model, error) {
	return c.model(ctx, "POST", name, "", "/load", o, true)
}

// Unload implements api.Control.
func (c *Client) Unload(ctx context.Context, name string) (api.Model, error) {
	return c.model(ctx, "POST", name, "", "/unload", nil, true)
}

// Plan implements api.Control.
func (c *Client) Plan(ctx context.Context) (p api.Plan, err error) {
	err = c.do(ctx, order{method: "GET", path: "/v1/plan", again: true}, &p)
	return p, err
}

// History implements api.Control.
func (c *Client) History(ctx context.Context) (h api.History, err error) {
	err = c.do(ctx, order{method: "GET", path: "/v1/plan/history", again: true}, &h)
	return h, err
}

// Diff implements api.Control.
func (c *Client) Diff(ctx context.Context) (d api.Diff, err error) {
	err = c.do(ctx, order{method: "GET", path: "/v1/plan/diff", again: true}, &d)
	return d, err
}

// Apply implements api.Control.
func (c *Client) Apply(ctx context.Context) (p api.Plan, err error) {
	err = c.do(ctx, order{method: "POST", path: "/v1/plan/apply"}, &p)
	return p, err
}

// Put implements api.Control. A plan that is put twice is the same plan.
func (c *Client) Put(ctx context.Context, spec api.PlanSpec) (p api.Plan, err error) {
	if err := spec.Check(); err != nil {
		return p, err
	}
	err = c.do(ctx, order{method: "PUT", path: "/v1/plan", body: spec, again: true}, &p)
	return p, err
}

// Pause implements api.Control.
func (c *Client) Pause(ctx context.Context, why string) (e api.Epochs, err error) {
	err = c.do(ctx, order{method: "POST", path: "/v1/plan/pause", body: api.Pause{Why: why}, again: true}, &e)
	return e, err
}

// Resume implements api.Control.
func (c *Client) Resume(ctx context.Context) (e api.Epochs, err error) {
	err = c.do(ctx, order{method: "POST", path: "/v1/plan/resume", again: true}, &e)
	return e, err
}

// State implements api.Control.
func (c *Client) State(ctx context.Context) (s api.Status, err error) {
	err = c.do(ctx, order{method: "GET", path: "/v1/state", again: true}, &s)
	return s, err
}

// Advice implements api.Control.
func (c *Client) Advice(ctx context.Context) (a api.Advice, err error) {
	err = c.do(ctx, order{method: "GET", path: "/v1/advice", again: true}, &a)
	return a, err
}
