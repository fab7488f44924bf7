package ingress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// library is a Repository: models come to a fake when they are loaded.
type library struct {
	mu       sync.Mutex
	f        *fake
	known    []Indexed
	orders   []string
	override Override
	err      error
	hold     bool // loads last until their context ends
}

func (l *library) Index(context.Context) ([]Indexed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known, l.err
}

func (l *library) Load(ctx context.Context, model string, o Override) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders, l.override = append(l.orders, "load "+model), o
	if l.hold {
		l.mu.Unlock()
		<-ctx.Done()
		l.mu.Lock()
		return ctx.Err()
	}
	if l.err == nil {
		l.f.mu.Lock()
		delete(l.f.gone, model+"/1")
		l.f.mu.Unlock()
	}
	return l.err
}

func (l *library) Unload(_ context.Context, model string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, "unload "+model)
	if l.err == nil {
		l.f.mu.Lock()
		l.f.gone = map[string]bool{model + "/1": true}
		l.f.mu.Unlock()
	}
	return l.err
}

func withLibrary(t *testing.T, cfg Config) (*server, *library) {
	l := &library{}
	cfg.Repository = l
	s := start(t, cfg)
	l.f = s.fake
	return s, l
}

// A model is unloaded and loaded again; what a load says beside it is what the configuration
// says, as Triton's clients send it.
func TestLoadAndUnload(t *testing.T) {
	s, l := withLibrary(t, Config{})
	s.want(s.do("POST", "/v2/repository/models/digits/unload", `{"parameters":{"unload_dependents":false}}`), 200, "{}")
	s.want(s.do("GET", "/v2/models/digits/ready", ""), 404, "digits")
	for _, body := range []string{"", "{}", `{"parameters":{}}`} {
		s.want(s.do("POST", "/v2/repository/models/digits/load", body), 200, "{}")
		if !l.override.empty() {
			t.Errorf("%q: %+v", body, l.override)
		}
	}
	s.want(s.do("GET", "/v2/models/digits/ready", ""), 200, "true")
	ms, batch, head := 20*time.Millisecond, 4, "head"
	for config, want := range map[string]Override{
		`{"max_batch_size":4}`: {MaxBatch: &batch},
		`{"name":"digits","parameters":{"slo_ms":{"string_value":"20"},"drop_policy":{"string_value":"head"}}}`: {SLO: &ms, DropPolicy: &head},
		`{"version_policy":{"latest":{"num_versions":2}}}`:                                                      {Versions: &VersionPolicy{Latest: 2}},
		`{"version_policy":{"latest":{}}}`:                                                                      {Versions: &VersionPolicy{Latest: 1}},
		`{"version_policy":{"all":{}}}`:                                                                         {Versions: &VersionPolicy{All: true}},
		`{"version_policy":{"specific":{"versions":[3,"12"]}}}`:                                                 {Versions: &VersionPolicy{Specific: []string{"3", "12"}}},
	} {
		body, _ := json.Marshal(object{"parameters": object{"config": config}})
		s.want(s.do("POST", "/v2/repository/models/digits/load", string(body)), 200, "{}")
		if !reflect.DeepEqual(l.override, want) {
			t.Errorf("%s: %+v", config, l.override)
		}
	}
}

// Who sends back what .../config said changes nothing but the batch, to what it is.
func TestLoadWithItsOwnConfig(t *testing.T) {
	s, l := withLibrary(t, Config{})
	for _, model := range []string{"digits", "two"} {
		config := s.do("GET", "/v2/models/"+model+"/config", "")
		body, _ := json.Marshal(object{"parameters": object{"config": string(config.body)}})
		s.want(s.do("POST", "/v2/repository/models/"+model+"/load", string(body)), 200, "{}")
		o := l.override
		if o.MaxBatch == nil || *o.MaxBatch != 8 {
			t.Errorf("%s: %+v", model, o)
		}
		if o.MaxBatch = nil; !o.empty() {
			t.Errorf("%s: %+v", model, o)
		}
	}
}

// What the control plane does not do has a status and a text that says what to do.
func TestRepositoryErrors(t *testing.T) {
	s, l := withLibrary(t, Config{})
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{fmt.Errorf("digits: %w", ErrNotThere), 400, "symphony model add digits/VERSION"},
		{fmt.Errorf("%w: slo", ErrNotTaken), 400, "failed to load 'digits': not taken: slo"},
		{fmt.Errorf("%w: model.onnx: it ends early", ErrNotLoaded), 400, "it ends early"},
		{fmt.Errorf("%w: connection refused", ErrAway), 503, "the control plane is away"},
		{errors.New("a bug"), 500, "a bug"},
	} {
		l.err = c.err
		a := s.do("POST", "/v2/repository/models/digits/load", "")
		s.want(a, c.status, c.text)
		if (a.header.Get("Retry-After") != "") != (c.status == 503) {
			t.Errorf("%v: Retry-After %q", c.err, a.header.Get("Retry-After"))
		}
		s.want(s.do("POST", "/v2/repository/models/digits/unload", ""), c.status, "failed to unload")
	}
	a := s.do("POST", "/v2/repository/index", "")
	if s.want(a, 200, `"digits"`); a.header.Get(reasonHeader) != "incomplete" {
		t.Errorf("an index without the control plane: %v", a.header)
	}
}

// index is the index's answer.
func (s *server) index(body string) (all []struct{ Name, Version, State, Reason string }) {
	s.t.Helper()
	a := s.do("POST", "/v2/repository/index", body)
	if err := json.Unmarshal(a.body, &all); err != nil || a.status != 200 {
		s.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return all
}

// The index has what is served, and what the control plane knows beside it, with the reason.
func TestIndex(t *testing.T) {
	s, l := withLibrary(t, Config{})
	l.known = []Indexed{{Name: "digits", Version: "1", Ready: true}, {Name: "digits", Version: "2", Reason: "failed: it ends early"}, {Name: "aardvark", Version: "1", Ready: true}}
	all := s.index("")
	found := map[string]string{}
	for i, k := range all {
		found[k.Name+"/"+k.Version] = k.State + " " + k.Reason
		if i > 0 && all[i-1].Name > k.Name {
			t.Errorf("%s after %s", k.Name, all[i-1].Name)
		}
	}
	for key, want := range map[string]string{"digits/1": "READY ", "digits/2": "UNAVAILABLE failed: it ends early",
		"aardvark/1": "UNAVAILABLE this frontend has not heard of it yet", "down/1": "UNAVAILABLE no backend serves it now", "two/0": "READY "} {
		if found[key] != want {
			t.Errorf("%s is %q, want %q", key, found[key], want)
		}
	}
	ready := s.index(`{"ready":true}`)
	for _, k := range ready {
		if k.State != "READY" {
			t.Errorf("%+v among those that are ready", k)
		}
	}
	if len(ready) == 0 || len(ready) >= len(all) || len(s.index(`{"ready":false}`)) != len(all) {
		t.Errorf("%d of %d are ready", len(ready), len(all))
	}
}

// Without a control plane what is loaded need not be loaded, and errors say what to set.
func TestWithoutARepository(t *testing.T) {
	s := start(t, Config{})
	s.want(s.do("POST", "/v2/repository/models/digits/load", ""), 200, "{}")
	for _, body := range []string{"", `{"parameters":{"config":"{\"max_batch_size\":4}"}}`} {
		model := "digits"
		if body == "" {
			model = "nobody"
		}
		s.want(s.do("POST", "/v2/repository/models/"+model+"/load", body), 400, "no control plane is configured")
	}
	s.want(s.do("POST", "/v2/repository/models/digits/unload", ""), 501, "no control plane is configured")
	if len(s.index("")) == 0 {
		t.Error("an empty index")
	}
}

// A load that lasts is answered when its time is over, or at once when the server drains; the
// order stands.
func TestLoadThatLasts(t *testing.T) {
	s, l := withLibrary(t, Config{LoadTimeout: 30 * time.Millisecond})
	l.hold = true
	s.want(s.do("POST", "/v2/repository/models/digits/load", ""), 503, "goes on being loaded")

	other, l := withLibrary(t, Config{LoadTimeout: time.Hour})
	l.hold = true
	c, err := net.Dial("tcp", other.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "POST /v2/repository/models/digits/load HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	for l.ordered() == 0 {
		time.Sleep(time.Millisecond)
	}
	drained := make(chan error, 1)
	go func() { drained <- other.Drain(context.Background()) }()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 503 {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	c.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func (l *library) ordered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.orders)
}

// Loads that wait are bounded, and hold up nothing else.
func TestLoadsAreBounded(t *testing.T) {
	s, _ := withLibrary(t, Config{})
	s.loads.Store(loadsMax)
	s.want(s.do("POST", "/v2/repository/models/digits/load", ""), 429, "too many loads")
	s.want(s.do("GET", "/v2/models/digits/ready", ""), 200, "true")
	s.loads.Store(0)
	s.want(s.do("POST", "/v2/repository/models/digits/load", ""), 200, "")
	if n := s.loads.Load(); n != 0 {
		t.Errorf("%d loads are left", n)
	}
}

// The metadata lists a model's versions, the lowest first.
func TestVersionsInMetadata(t *testing.T) {
	s := start(t, Config{})
	for _, path := range []string{"/v2/models/two", "/v2/models/two/versions/0"} {
		s.want(s.do("GET", path, ""), 200, `"versions":["0","1"]`)
	}
	if a := s.do("GET", "/v2/models/two/config", ""); !strings.Contains(string(a.body), `"specific":{"versions":["0","1"]}`) {
		t.Errorf("%s", a.body)
	}
}
