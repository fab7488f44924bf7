package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve is a handler on a server of its own, and a client of it.
func serve(t *testing.T, h http.Handler, o Options) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	if o.URL == "" {
		o.URL = s.URL
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Over HTTP a control plane keeps the promises that it keeps by itself.
func TestClientIsAControl(t *testing.T) {
	fakecontrol.Suite(t, func(t *testing.T) api.Control {
		return serve(t, api.New(&fakecontrol.Control{}, api.Options{Token: "secret"}), Options{Token: "secret"})
	})
}

func TestWrongToken(t *testing.T) {
	h := api.New(&fakecontrol.Control{}, api.Options{Token: "secret"})
	for _, token := range []string{"", "guess"} {
		_, err := serve(t, h, Options{Token: token, Patience: time.Minute}).State(t.Context())
		if !errors.Is(err, &api.Error{Kind: api.KindUnauthorized}) || !strings.Contains(err.Error(), "--token") {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// While the store is away a call is tried again, for as long as there is patience; the error
// is what the control plane said.
func TestAway(t *testing.T) {
	var away atomic.Int32
	f := &fakecontrol.Control{}
	inner := api.New(f, api.Options{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Add(-1) == 0 {
			f.SetAway(nil)
		}
		inner.ServeHTTP(w, r)
	})
	f.SetAway(api.Away(time.Millisecond, false, "etcd does not answer"))
	_, err := serve(t, h, Options{}).PutVersion(t.Context(), "a", "1", api.VersionSpec{Source: "file:///m"})
	var e *api.Error
	if !errors.As(err, &e) || e.Kind != api.KindAway || e.RetryAfter != time.Second || !strings.Contains(e.Msg, "etcd") {
		t.Errorf("without patience: %v", err)
	}
	away.Store(3)
	if _, err := serve(t, h, Options{Patience: time.Minute}).PutVersion(t.Context(), "a", "1", api.VersionSpec{Source: "file:///m"}); err != nil || f.Calls()["add"] < 3 {
		t.Errorf("with patience: %v after %v", err, f.Calls())
	}
}

// A roll-back that may have been made is not made again; one that was not, is.
func TestNotTwice(t *testing.T) {
	f := &fakecontrol.Control{}
	c := serve(t, api.New(f, api.Options{}), Options{Patience: 300 * time.Millisecond})
	for _, unknown := range []bool{true, false} {
		before := f.Calls()["rollback"]
		f.SetAway(api.Away(0, unknown, "gone"))
		_, err := c.RollBack(t.Context(), "a")
		var e *api.Error
		if n := f.Calls()["rollback"] - before; !errors.As(err, &e) || e.Unknown != unknown || (n == 1) != unknown {
			t.Errorf("unknown %v: %d tries, %v", unknown, n, err)
		}
	}
	cut := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}), Options{Patience: 300 * time.Millisecond})
	_, err := cut.Apply(t.Context())
	var u *UnreachableError
	if !errors.As(err, &u) || !u.Unknown || !strings.Contains(err.Error(), "not known") {
		t.Errorf("cut: %v", err)
	}
}

// freePort is an address where nobody listens.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestServerGone(t *testing.T) {
	address := freePort(t)
	c, err := New(Options{URL: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Apply(t.Context())
	var u *UnreachableError
	if !errors.As(err, &u) || u.Unknown || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "--control") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	// It comes while the call is tried again: that is not lost, even what must not be done twice.
	c.o.Patience = time.Minute
	done := make(chan error, 1)
	go func() {
		_, err := c.Apply(context.Background())
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: api.New(&fakecontrol.Control{}, api.Options{})}
	ended := make(chan struct{})
	go func() { s.Serve(l); close(ended) }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.Close()
	<-ended
}

// A server that is slow, cuts its answers, or is another one.
func TestBadServers(t *testing.T) {
	stop := make(chan struct{})
	for name, k := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"silent":    {func(w http.ResponseWriter, r *http.Request) { <-stop }, "deadline"},
		"not JSON":  {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") }, "something else answers"},
		"404":       {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "something else answers there: 404"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 302) }, "something else answers there: 302"},
		"other JSON": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			io.WriteString(w, `{"error":"no such path"}`)
		}, "something else answers"},
		"bad JSON": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"epoch":"x"}`)
		}, "cannot be read"},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		}, "cut"},
	} {
		s := httptest.NewServer(k.h)
		c, err := New(Options{URL: s.URL, Timeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Plan(t.Context())
		var u *UnreachableError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v, want %q", name, err, k.want)
		}
		if name == "silent" {
			close(stop)
		}
		c.Close()
		s.Close()
	}
}

func TestAddresses(t *testing.T) {
	for _, url := range []string{"127.0.0.1:8002", "tcp:127.0.0.1:8002", "http://", "http://h/path", "http://h?x=1", "ftp://h", "http://[::1"} {
		if _, err := New(Options{URL: url}); err == nil || !strings.Contains(err.Error(), DefaultURL) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"", "http://h:1", "https://h/", "http://[::1]:8002"} {
		if _, err := New(Options{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Names are refused before anything is sent.
func TestNamesAreChecked(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.URL) }), Options{})
	for _, k := range [][2]string{{"..", "1"}, {"a/b", "1"}, {"", "1"}, {"a", ""}, {"a", "x"}, {"a", "../1"}, {"a", "01"}} {
		_, put := c.PutVersion(t.Context(), k[0], k[1], api.VersionSpec{})
		_, del := c.DeleteVersion(t.Context(), k[0], k[1])
		if !errors.Is(put, &api.Error{Kind: api.KindInvalid}) && put == nil || del == nil {
			t.Errorf("%q: %v, %v", k, put, del)
		}
	}
}

// AwaitServed hears of each state, and ends with the last one.
func TestAwaitServed(t *testing.T) {
	f := &fakecontrol.Control{Broken: func(_, version string) string {
		if version == "3" {
			return "model.onnx: it ends early"
		}
		return ""
	}}
	c := serve(t, api.New(f, api.Options{}), Options{})
	add := func(version string) {
		if _, err := c.PutVersion(t.Context(), "a", version, api.VersionSpec{Source: "file:///m"}); err != nil {
			t.Fatal(err)
		}
	}
	add("2")
	var states []string
	v, err := c.AwaitServed(t.Context(), "a", "2", func(v api.Version, err error) { states = append(states, string(v.State)) })
	if err != nil || v.State != api.Serving || fmt.Sprint(states) != "[waiting fetching loading measuring serving]" {
		t.Errorf("%+v, %v, by %v", v, err, states)
	}
	add("3")
	_, err = c.AwaitServed(t.Context(), "a", "3", nil)
	var failed *FailedError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "it ends early") {
		t.Errorf("%v", err)
	}
	if _, err = c.AwaitServed(t.Context(), "a", "2", nil); err == nil || !strings.Contains(err.Error(), "--policy") {
		t.Errorf("a version that the policy leaves out: %v", err)
	}
	if _, err = c.AwaitServed(t.Context(), "a", "9", nil); !errors.Is(err, &api.Error{Kind: api.KindNotFound}) {
		t.Errorf("a version that is not there: %v", err)
	}
	if _, err := c.Unload(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err = c.AwaitServed(t.Context(), "a", "3", nil); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("a stopped model: %v", err)
	}
}

// It waits on while the control plane is away, and ends with its context.
func TestAwaitServedThroughOutage(t *testing.T) {
	f := &fakecontrol.Control{}
	c := serve(t, api.New(f, api.Options{}), Options{})
	if _, err := c.PutVersion(t.Context(), "a", "1", api.VersionSpec{Source: "file:///m"}); err != nil {
		t.Fatal(err)
	}
	f.SetAway(api.Away(0, false, "etcd does not answer"))
	told := 0
	if v, err := c.AwaitServed(t.Context(), "a", "1", func(_ api.Version, err error) {
		if err != nil {
			told++
			f.SetAway(nil)
		}
	}); err != nil || v.State != api.Serving || told != 1 {
		t.Errorf("%+v, %v; told %d times", v, err, told)
	}
	f.SetAway(api.Away(0, false, "etcd does not answer"))
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.AwaitServed(ctx, "a", "1", func(api.Version, error) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A call that waits returns when there is something new, and not before.
func TestAwaitWaits(t *testing.T) {
	f := &fakecontrol.Control{}
	c := serve(t, api.New(f, api.Options{}), Options{})
	if _, err := c.PutVersion(t.Context(), "a", "1", api.VersionSpec{Source: "file:///m"}); err != nil {
		t.Fatal(err)
	}
	f.Settle()
	m, err := c.Model(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan api.Model, 1)
	go func() {
		got, err := c.Await(context.Background(), "a", m.Revision)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	for end := time.Now().Add(20 * time.Second); f.Calls()["await"] == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	select {
	case got := <-done:
		t.Fatalf("%+v before anything has changed", got)
	default:
	}
	if _, err := c.SetPolicy(t.Context(), "a", api.Policy{Kind: api.PolicyAll}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.Policy.Kind != api.PolicyAll {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
	defer cancel()
	now, _ := c.Model(t.Context(), "a")
	if got, err := c.Await(ctx, "a", now.Revision); err != nil || got.Revision != now.Revision {
		t.Errorf("when time is up: %+v, %v", got, err)
	}
}

func TestAll(t *testing.T) {
	f := &fakecontrol.Control{}
	c := serve(t, api.New(f, api.Options{}), Options{})
	const n = 2*api.PageMax + 7
	for i := range n {
		if _, err := f.PutVersion(t.Context(), fmt.Sprintf("m%05d", i), "1", api.VersionSpec{Source: "file:///m"}); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	err := c.All(t.Context(), "", func(m api.Model) error {
		if m.Name != fmt.Sprintf("m%05d", got) {
			return fmt.Errorf("%s at %d", m.Name, got)
		}
		got++
		return nil
	})
	if err != nil || got != n || f.Calls()["list"] != 3 {
		t.Errorf("%d models, %v, %d calls", got, err, f.Calls()["list"])
	}
	stop := errors.New("enough")
	if err := c.All(t.Context(), "", func(api.Model) error { return stop }); err != stop {
		t.Error(err)
	}
}
