package watchcmd

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/scheduler/watch/ui"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Time(mono.Millisecond)

// events are a small schedule: 100 GPUs, 40 models, one request that is dropped and one that is late.
func events() (out []watch.Event) {
	out = append(out, watch.Event{Kind: watch.Pool, At: ms, Info: &watch.Info{Name: "a100", GPUs: 100, Kept: 50, Need: 12.25, Spent: 0.5, Ctrl: 200 * mono.Microsecond}})
	for g := range 100 {
		out = append(out, watch.Event{Kind: watch.GPU, At: ms, GPU: wire.GPUID(g), Info: &watch.Info{}})
	}
	for m := range 40 {
		out = append(out, watch.Event{Kind: watch.Model, At: ms, Model: wire.ModelID(m), Info: &watch.Info{Name: "model-with-quite-a-long-name-" + string(rune('a'+m%26)), SLO: 20 * mono.Millisecond, MaxBatch: 4,
			Profile: &catalog.Profile{Alpha: 1e6, Beta: 9e6}}})
		for i := range 2 {
			out = append(out, watch.Event{Kind: watch.Counts, At: ms * mono.Time(1+1000*i), Model: wire.ModelID(m), Info: &watch.Info{Came: uint64(100 * i * (m + 1)), Served: uint64(90 * i * (m + 1)), Dropped: map[string]uint64{"shed": uint64(10 * i * (m + 1))}}})
		}
	}
	key := func(id int) watch.Key { return watch.Key{Frontend: 2, ID: wire.RequestID(id)} }
	return append(out,
		watch.Event{Kind: watch.Batch, At: 1900 * ms, Model: 1, Batch: 5 << 16, Exec: 1900 * ms, Until: 1910 * ms, Size: 1, Requests: []watch.Request{{Key: key(1), Arrival: 1895 * ms, Deadline: 1912 * ms}}},
		watch.Event{Kind: watch.Done, At: 1921 * ms, Model: 1, Batch: 5 << 16, Exec: 1900 * ms, Until: 1920 * ms, Size: 1},
		watch.Event{Kind: watch.Drop, At: 1999 * ms, Reason: wire.ReasonDeadline, Request: watch.Request{Key: key(42), Arrival: 1990 * ms, Came: 1990 * ms, Deadline: 2010 * ms}})
}

// fake is a scheduler's source: all at once, and then what is told.
type fake struct {
	mu      sync.Mutex
	pending []watch.Event
}

func (f *fake) WatchHead() watch.Head { return watch.NewHead("live", "fake", 7) }
func (f *fake) Watching(bool)         {}
func (f *fake) Watched(to *watch.Told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.pending {
		to.Add(&f.pending[i])
	}
	f.pending = nil
}

func (f *fake) tell(e ...watch.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, e...)
}

func startScheduler(t *testing.T) (*fake, Admin) {
	t.Helper()
	f := &fake{pending: events()}
	hub := ui.NewHub(ui.Config{Source: func() ui.Source { return f }, Always: true})
	mux := http.NewServeMux()
	hub.Register(mux)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		hub.Close()
		s.Close()
	})
	return f, Admin{strings.TrimPrefix(s.URL, "http://")}
}

func file(t *testing.T) string {
	t.Helper()
	doc := watch.NewHead("sim", "a test", 0).Append(nil)
	for _, e := range events() {
		doc = e.Append(doc)
	}
	path := filepath.Join(t.TempDir(), "saved.jsonl")
	if err := os.WriteFile(path, doc, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A story is the same from a scheduler and from a file; without an ID both list what was lost.
func TestExplain(t *testing.T) {
	_, admin := startScheduler(t)
	path := file(t)
	for name, c := range map[string]Explain{"scheduler": {Admin: admin}, "file": {File: path}} {
		run := func(c Explain) string {
			var out bytes.Buffer
			if err := c.run(t.Context(), &out); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return out.String()
		}
		if text := run(c); !strings.Contains(text, "2-2a") || !strings.Contains(text, "late by 8.0 ms") || !strings.Contains(text, "dropped: deadline") {
			t.Errorf("%s: the list is\n%s", name, text)
		} else if want := map[string]string{"scheduler": " s ago", "file": "0.1 s before the end"}[name]; !strings.Contains(text, want) {
			t.Errorf("%s: the list does not say when, %q:\n%s", name, want, text)
		}
		c.Model = "model-with-quite-a-long-name-b"
		if text := run(c); strings.Contains(text, "2-2a") || !strings.Contains(text, "2-1") {
			t.Errorf("%s: the list of one model is\n%s", name, text)
		}
		c.Model, c.Request = "", "2-1"
		if text := run(c); !strings.Contains(text, "was late by 8.0 ms") || !strings.Contains(text, "10.0 ms longer than its profile says") {
			t.Errorf("%s: the story is\n%s", name, text)
		}
		c.JSON = true
		if text := run(c); !strings.Contains(text, `"cause":"overrun"`) {
			t.Errorf("%s: as JSON it is %s", name, text)
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	_, admin := startScheduler(t)
	nobody := Admin{closed(t)}
	for want, c := range map[string]Explain{
		"write FRONTEND-NUMBER":        {Admin: admin, Request: "x"},
		"nothing is known":             {Admin: admin, Request: "7-7"},
		"leave out --next and --model": {Admin: admin, Request: "7-7", Next: true},
		"leave out --file":             {Next: true, File: "x"},
		"nobody listens at":            {Admin: nobody},
		"write HOST:PORT":              {Admin: Admin{"ftp://x"}},
		"no such file":                 {File: "/there/is/none"},
	} {
		if err := c.run(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// closed is an address where nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// --next passes over what was before, and tells of what comes.
func TestExplainNext(t *testing.T) {
	f, admin := startScheduler(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	told := make(chan struct{})
	go func() {
		defer close(told)
		for id := 100; ctx.Err() == nil; id++ { // until it is heard
			f.tell(watch.Event{Kind: watch.Drop, At: 3000 * ms, Reason: wire.ReasonShed, Request: watch.Request{Key: watch.Key{Frontend: 2, ID: wire.RequestID(id)}, Arrival: 2990 * ms, Deadline: 3010 * ms}})
			time.Sleep(20 * time.Millisecond)
		}
	}()
	var out bytes.Buffer
	err := Explain{Admin: admin, Next: true}.run(ctx, &out)
	cancel()
	<-told
	if err != nil || !strings.Contains(out.String(), "was dropped (shed)") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// The picture fits a terminal of 80 by 24, whatever there is, and so do others.
func TestTopFits(t *testing.T) {
	p := newPicture()
	p.head(watch.NewHead("live", "scheduler", 0))
	for _, e := range events() {
		p.take(&e)
	}
	for _, size := range [][2]int{{80, 24}, {40, 8}, {200, 60}} {
		lines := p.lines(size[0], size[1])
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > size[0] {
				t.Errorf("%v: %d columns: %q", size, n, l)
			}
		}
	}
	text := strings.Join(p.lines(80, 24), "\n")
	t.Log("\n" + text)
	for _, want := range []string{"100 GPUs", "12.2 needed", "50 kept", "deferral 50 %", "WAITING", "MODEL", "10.00", "2-2a", "late by 8.0 ms", "more models"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if empty := newPicture().lines(80, 24); len(empty) == 0 {
		t.Error("nothing is shown of nothing")
	}
}

// Of a paged pool it has what each GPU holds and what its loader does, and each model's copies, hits and loads, in 80 by 24.
func TestTopOfPagedPool(t *testing.T) {
	p := newPicture()
	p.head(watch.NewHead("live", "scheduler", 0))
	p.take(&watch.Event{Kind: watch.Pool, At: ms, Info: &watch.Info{Name: "v100", GPUs: 12, Need: 1.5, Spent: 1, Page: 16 << 20}})
	for g := range 12 {
		p.take(&watch.Event{Kind: watch.GPU, At: ms, GPU: wire.GPUID(g), Info: &watch.Info{}})
	}
	if text := strings.Join(p.lines(80, 24), "\n"); !strings.Contains(text, "is told in a second") {
		t.Errorf("before anything is told of memories:\n%s", text)
	}
	for i := range 2 {
		for g := range 12 {
			p.take(&watch.Event{Kind: watch.Memory, At: ms * mono.Time(100+1000*i), GPU: wire.GPUID(g), Info: &watch.Info{Memory: &watch.MemoryInfo{Pages: 1376, Free: 5, Held: 195, Oldest: ms,
				Cold: uint64(100 * i), Copies: uint64(12 * i), Room: uint64(110 * i), Removed: uint64(2 * i), Busy: mono.Dur(i) * 950 * mono.Millisecond}}})
		}
		for m := range 30 {
			if i == 0 {
				p.take(&watch.Event{Kind: watch.Model, At: ms, Model: wire.ModelID(m), Info: &watch.Info{Name: "model-with-quite-a-long-name-" + string(rune('a'+m)), SLO: 100 * mono.Millisecond, MaxBatch: 4}})
			}
			p.take(&watch.Event{Kind: watch.Counts, At: ms * mono.Time(100+1000*i), Model: wire.ModelID(m), Info: &watch.Info{Came: uint64(100 * i), Served: uint64(100 * i), Warm: uint64(75 * i), Cold: uint64(25 * i), Loads: 31, Held: 3, Unmet: 42 * mono.Millisecond}})
		}
	}
	lines := p.lines(80, 24)
	text := strings.Join(lines, "\n")
	t.Log("\n" + text)
	for _, l := range lines {
		if utf8.RuneCountInString(l) > 80 {
			t.Errorf("%q is longer than a terminal", l)
		}
	}
	for _, want := range []string{"LOADER", "all      16512     60   2340", "GPU 0     1376      5    195    100     12     110     2.0   95 %  1.1 s", "HELD HIT % LOADS  UNMET", "    3    75    31  42 ms", "more models"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
}

// Of no requests there is no bad share: three that came, and were dropped a moment later, are no 100 % of 0. What is of before the
// link was lost is not said to be of now.
func TestTopOfFewRequestsAndLostLink(t *testing.T) {
	p := newPicture()
	p.take(&watch.Event{Kind: watch.Model, At: ms, Info: &watch.Info{Name: "m", SLO: 20 * mono.Millisecond, MaxBatch: 4}})
	count := func(at mono.Time, i watch.Info) { p.take(&watch.Event{Kind: watch.Counts, At: at, Info: &i}) }
	has := func(want ...string) {
		t.Helper()
		text := strings.Join(p.lines(80, 24), "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("the picture lacks %q:\n%s", w, text)
			}
		}
	}
	row := func(came, good, bad string) string { return fmt.Sprintf("%-22s %7s %7s %6s", "m", came, good, bad) }
	count(1000*ms, watch.Info{Came: 3})
	count(1250*ms, watch.Info{Came: 3, Dropped: map[string]uint64{"deadline": 3}})
	has("0 requests/s  0 good  - % bad", row("0", "0", "-"))
	count(2250*ms, watch.Info{Came: 103, Served: 90, Dropped: map[string]uint64{"deadline": 13}})
	has("100 requests/s  90 good  10.00 % bad", row("100", "90", "10.00"))
	p.trouble = "no connection"
	has("- requests/s  - good  - % bad", "no connection", row("-", "-", "-"))
}

// The span of --once begins with what the scheduler tells first: however short it is, and however slow the
// way there, there is a picture.
func TestTopOnce(t *testing.T) {
	_, admin := startScheduler(t)
	var out bytes.Buffer
	if err := (Top{Admin: admin, Once: 1, Width: 80, Lines: 24}).once(t.Context(), &out); err != nil || !strings.Contains(out.String(), "100 GPUs") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if err := (Top{Admin: admin, Once: 1, Width: 10, Lines: 24}).once(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "--width 10") {
		t.Errorf("ten columns: %v", err)
	}
	if err := (Top{Admin: Admin{closed(t)}, Once: time.Second, Width: 80, Lines: 24}).once(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("nobody there: %v", err)
	}
}

// The page of a file is served until Ctrl-C, and the browser is opened at it.
func TestUI(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- UI{File: file(t), Listen: "127.0.0.1:0", Open: true}.run(ctx, &bytes.Buffer{}, func(url string) { opened <- url })
	}()
	url := <-opened
	resp, err := http.Get(url + "story?request=2-1&format=text")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %+v", err, resp)
	}
	_ = resp.Body.Close()
	rebound, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "evil.example"
	if resp, err = http.DefaultClient.Do(rebound); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("a name that leads here: %v, %+v", err, resp)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("no schedule\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (UI{File: bad, Listen: "127.0.0.1:0"}).run(t.Context(), &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "first line") {
		t.Errorf("a bad file: %v", err)
	}
}
