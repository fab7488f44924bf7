package ui

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fake is a Source of a script: each look tells the next events.
type fake struct {
	mu      sync.Mutex
	on      bool
	begun   int // how often Watching(true) was called
	pending []watch.Event
}

func (f *fake) WatchHead() watch.Head { return watch.NewHead("live", "fake", 7) }

func (f *fake) Watching(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on = on; on {
		f.begun++
		f.pending = append(surroundings(), f.pending...)
	}
}

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

func (f *fake) state() (on bool, begun int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on, f.begun
}

const ms = mono.Time(mono.Millisecond)

func surroundings() []watch.Event {
	return []watch.Event{
		{Kind: watch.Pool, At: ms, Info: &watch.Info{Name: "a100", GPUs: 1}},
		{Kind: watch.GPU, At: ms, Info: &watch.Info{Name: "b/0"}},
		{Kind: watch.Model, At: ms, Info: &watch.Info{Name: "m", SLO: 20 * mono.Millisecond, MaxBatch: 4, Profile: &catalog.Profile{Alpha: 1e6, Beta: 9e6}}},
	}
}

// overload is a batch that has the GPU, and a request that is dropped for it.
func overload() []watch.Event {
	key := func(id int) watch.Key { return watch.Key{Frontend: 2, ID: wire.RequestID(id)} }
	return []watch.Event{
		{Kind: watch.Batch, At: 100 * ms, Batch: 1 << 16, Exec: 100 * ms, Until: 112 * ms, Size: 1, Requests: []watch.Request{{Key: key(1), Arrival: 99 * ms, Deadline: 119 * ms}}},
		{Kind: watch.Drop, At: 110 * ms, Reason: wire.ReasonDeadline, Request: watch.Request{Key: key(0x2a), Arrival: 99 * ms, Came: 99 * ms, Deadline: 119 * ms}},
		{Kind: watch.Done, At: 112 * ms, Batch: 1 << 16, Exec: 100 * ms, Until: 112 * ms, Size: 1},
	}
}

func serve(t *testing.T, cfg Config) (*Hub, string) {
	t.Helper()
	h := NewHub(cfg)
	return h, serveHub(t, h)
}

func serveHub(t *testing.T, h *Hub) string {
	t.Helper()
	mux := http.NewServeMux()
	h.Register(mux)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s.URL + "/ui/"
}

func get(t *testing.T, url string, want int) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: status %d, %v, want %d: %s", url, resp.StatusCode, err, want, text)
	}
	return string(text)
}

// stream is an open viewer.
type stream struct {
	body  io.Closer
	lines *bufio.Scanner
}

// plain is a line of a stream, with each packed event a line of its own.
func plain(t *testing.T, line string) string {
	t.Helper()
	text, ok := strings.CutPrefix(line, `data: {"e":"packed"`)
	if !ok {
		return line + "\n"
	}
	var all []byte
	var r watch.Reader
	if err := r.Line([]byte(`{"e":"packed"`+text), func(e *watch.Event) { all = e.Append(append(all, data...)) }); err != nil || len(all) == 0 {
		t.Fatalf("%s: %v", line, err)
	}
	return string(all)
}

func open(t *testing.T, url string) *stream {
	t.Helper()
	resp, err := http.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	s := &stream{resp.Body, bufio.NewScanner(resp.Body)}
	s.lines.Buffer(nil, watch.LineMax)
	return s
}

// until reads lines up to one that has the text.
func (s *stream) until(t *testing.T, text string) (all string) {
	t.Helper()
	for s.lines.Scan() {
		now := plain(t, s.lines.Text())
		all += now
		if strings.Contains(now, text) {
			return all
		}
	}
	t.Fatalf("the stream ends before %q:\n%s", text, all)
	return ""
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

// A viewer gets the head, the surroundings, and what happens from then on; one that comes later gets what was
// kept. With the last one, and Close, the source has rest.
func TestStream(t *testing.T) {
	t.Cleanup(func() { // after the server's
		await(t, "all goroutines have ended", func() bool {
			http.DefaultClient.CloseIdleConnections() // also those that have become idle since
			return goleak.Find() == nil
		})
	})
	f := &fake{}
	h, url := serve(t, Config{Source: func() Source { return f }})
	if on, _ := f.state(); on {
		t.Error("the source is watched before anybody looks")
	}
	first := open(t, url)
	text := first.until(t, `"e":"model"`)
	if !strings.HasPrefix(text, `data: {"symphony":"schedule","version":1,"source":"live"`) || !strings.Contains(text, `"e":"pool"`) {
		t.Errorf("the stream begins with\n%s", text)
	}
	f.tell(overload()...)
	first.until(t, `"request":"2-2a","reason":"deadline"`)
	second := open(t, url)
	if text := second.until(t, `"e":"done"`); !strings.Contains(text, `"e":"drop"`) || !strings.Contains(text, `"e":"model"`) {
		t.Errorf("one who comes later gets\n%s", text)
	}
	if _, begun := f.state(); begun != 1 {
		t.Errorf("the source was begun %d times for two viewers, want once", begun)
	}
	first.until(t, `"e":"now"`)
	h.Close()
	for first.lines.Scan() { // it ends
	}
	if on, _ := f.state(); on {
		t.Error("the source is still watched after Close")
	}
	get(t, url+"events", http.StatusServiceUnavailable)
}

// After the last viewer, and a while, the source has rest; the next one begins anew, without what was before.
func TestRest(t *testing.T) {
	f := &fake{}
	h, url := serve(t, Config{Source: func() Source { return f }})
	s := open(t, url)
	f.tell(overload()...)
	s.until(t, `"e":"drop"`)
	_ = s.body.Close()
	await(t, "the viewer is gone", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.until = time.Time{} // the while is over
		return len(h.viewers) == 0
	})
	await(t, "the source has rest", func() bool {
		on, _ := f.state()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.until = time.Time{}
		return !on
	})
	var lost []Lost
	if err := json.Unmarshal([]byte(get(t, url+"lost", http.StatusOK)), &lost); err != nil || len(lost) != 0 {
		t.Errorf("after the rest %v is known, %v, want nothing", lost, err)
	}
	if on, begun := f.state(); !on || begun != 2 {
		t.Errorf("a question has the source watched: %v, begun %d times, want true and 2", on, begun)
	}
}

// Viewers are bounded, and one that reads nothing is cut off while others go on.
func TestViewersAreBounded(t *testing.T) {
	f := &fake{}
	h, url := serve(t, Config{Source: func() Source { return f }, Viewers: 2})
	a := open(t, url)
	a.until(t, `"e":"model"`)
	b := open(t, url)
	if text := get(t, url+"events", http.StatusServiceUnavailable); !strings.Contains(text, "at most 2") {
		t.Errorf("a third viewer is told %s", text)
	}
	_ = b.body.Close()
	await(t, "the second has left", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.viewers) == 1
	})
	h.mu.Lock()
	slow := &viewer{chunks: make(chan *chunk, behindMost)}
	h.viewers[slow] = true
	for range behindMost + 1 {
		h.hand(&chunk{text: []byte("data: {}\n\n")})
	}
	cut := !h.viewers[slow]
	h.mu.Unlock()
	if !cut {
		t.Error("a viewer that reads nothing is not cut off")
	}
}

// A request's story by the API: as JSON, as text, in the list; what is wrong is told.
func TestQuestions(t *testing.T) {
	f := &fake{}
	f.tell(overload()...)
	_, url := serve(t, Config{Source: func() Source { return f }, Always: true})
	var s Story
	if err := json.Unmarshal([]byte(get(t, url+"story?request=2-2a", http.StatusOK)), &s); err != nil {
		t.Fatal(err)
	}
	if s.Outcome != "dropped" || s.Reason != "deadline" || s.Cause != "overload" || s.Needed == nil || s.Needed.Batch != "10000" || s.Needed.Model != "m" || len(s.Steps) < 3 || len(s.Saved) == 0 {
		t.Errorf("the story is %+v", s)
	}
	if text := get(t, url+"story?request=2-2a&format=text", http.StatusOK); !strings.Contains(text, s.Headline) || !strings.Contains(text, "What would have saved it") {
		t.Errorf("as text it is\n%s", text)
	}
	var lost []Lost
	if err := json.Unmarshal([]byte(get(t, url+"lost?most=5", http.StatusOK)), &lost); err != nil || len(lost) != 1 || lost[0].Request != "2-2a" || lost[0].Model != "m" {
		t.Errorf("lost are %+v, %v", lost, err)
	}
	for path, want := range map[string]string{"story": "write FRONTEND-NUMBER", "story?request=x": "write FRONTEND-NUMBER", "lost?most=0": "must be 1 to 200", "lost?most=x": "must be 1 to 200"} {
		if text := get(t, url+path, http.StatusBadRequest); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", path, text, want)
		}
	}
	if text := get(t, url+"story?request=9-9", http.StatusNotFound); !strings.Contains(text, "nothing is known") || !strings.Contains(text, "scheduler.watch") {
		t.Errorf("an unknown request: %s", text)
	}
}

// What paged pools hold is an answer, once their schedulers have told it; where all is resident it is none.
func TestPages(t *testing.T) {
	f := &fake{}
	_, url := serve(t, Config{Source: func() Source { return f }, Always: true})
	ask := func() (pools []PagedPool) {
		t.Helper()
		if err := json.Unmarshal([]byte(get(t, url+"pages", http.StatusOK)), &pools); err != nil {
			t.Fatal(err)
		}
		return pools
	}
	if all := ask(); all == nil || len(all) != 0 {
		t.Errorf("of a resident pool %+v is told", all)
	}
	f.tell(watch.Event{Kind: watch.Pool, At: ms, Info: &watch.Info{Name: "a100", GPUs: 1, Page: 16 << 20}},
		watch.Event{Kind: watch.Memory, At: 1000 * ms, Info: &watch.Info{Memory: &watch.MemoryInfo{Pages: 140, Free: 7, Held: 19, Loading: 1, Oldest: 400 * ms, Cold: 9}}},
		watch.Event{Kind: watch.Memory, At: 2000 * ms, Info: &watch.Info{Memory: &watch.MemoryInfo{Pages: 140, Free: 7, Held: 19, Oldest: 500 * ms, Cold: 12, Copies: 1, Room: 2, Busy: 250 * mono.Millisecond}}},
		watch.Event{Kind: watch.Counts, At: 2000 * ms, Info: &watch.Info{Came: 10, Warm: 6, Cold: 2, Loads: 3, Held: 1, Unmet: 5}})
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		all := ask()
		if len(all) == 0 && time.Since(begin) < 10*time.Second {
			continue
		}
		hits := 0.75
		want := []PagedPool{{Pool: "a100", Page: 16 << 20, Devices: []PagedDevice{{Name: "b/0", Pages: 140, Free: 7, Held: 19, Idle: 1500 * mono.Millisecond, Cold: 3, Copies: 1, Room: 2, Busy: 0.25, Loads: 13, Evictions: 2}},
			Models: []PagedModel{{Model: "m", Held: 1, Hits: &hits, Warm: 6, Cold: 2, Loads: 3, Unmet: 5}}}}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("it is\n%+v, want\n%+v", all, want)
		}
		return
	}
}

// What is saved is read again, and tells the same story.
func TestSaveAndRead(t *testing.T) {
	f := &fake{}
	f.tell(overload()...)
	_, url := serve(t, Config{Source: func() Source { return f }, Always: true})
	story := get(t, url+"story?request=2-2a", http.StatusOK)
	doc := get(t, url+"save", http.StatusOK)
	h, err := Read(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	file := serveHub(t, h)
	if again := get(t, file+"story?request=2-2a", http.StatusOK); again != story {
		t.Errorf("of the file the story is\n%s\nlive it was\n%s", again, story)
	}
	text := ""
	for line := range strings.Lines(get(t, file+"events", http.StatusOK)) {
		text += plain(t, strings.TrimSuffix(line, "\n"))
	}
	if !strings.Contains(text, "event: end") || !strings.Contains(text, `"e":"batch"`) {
		t.Errorf("the stream of a file is\n%s", text)
	}
	if again := get(t, file+"save", http.StatusOK); !strings.Contains(again, `"e":"drop"`) {
		t.Errorf("saved again it is\n%s", again)
	}
}

func TestReadRefuses(t *testing.T) {
	head := string(watch.NewHead("live", "", 0).Append(nil))
	for text, want := range map[string]string{"": "empty", "hello\n": "first line", head: "no event", head + "{\n": "line 2", head + strings.Repeat("x", watch.LineMax+1): "longer than"} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, watch.ErrDocument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(io.MultiReader(strings.NewReader(head), errReader{})); err == nil {
		t.Error("a file that cannot be read is taken")
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// Another scheduler in the place of the first: viewers begin anew with it, and nothing of the first is kept.
func TestSourceChanges(t *testing.T) {
	a, b := &fake{}, &fake{}
	var mu sync.Mutex
	now := a
	set := func(f *fake) {
		mu.Lock()
		defer mu.Unlock()
		now = f
	}
	_, url := serve(t, Config{Source: func() Source {
		mu.Lock()
		defer mu.Unlock()
		if now == nil {
			return nil
		}
		return now
	}})
	s := open(t, url)
	a.tell(overload()...)
	s.until(t, `"e":"drop"`)
	set(b)
	for s.lines.Scan() { // it is cut off
	}
	if on, _ := a.state(); on {
		t.Error("the first is still watched")
	}
	if lost := get(t, url+"lost", http.StatusOK); strings.Contains(lost, "2-2a") {
		t.Errorf("of the first is kept: %s", lost)
	}
	set(nil)
	await(t, "nobody is there", func() bool {
		resp, err := http.Get(url + "events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return false // a stream, and no end of it to read to
		}
		text, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "no scheduler here")
	})
}

// Texts are told when they change, and taken back.
func TestTexts(t *testing.T) {
	f := &fake{}
	var mu sync.Mutex
	texts := []watch.Info{{Name: "plan", Lines: []string{"plan 1"}}}
	_, url := serve(t, Config{Source: func() Source { return f }, Texts: func(context.Context) []watch.Info {
		mu.Lock()
		defer mu.Unlock()
		return texts
	}})
	s := open(t, url)
	s.until(t, `"lines":["plan 1"]`)
	mu.Lock()
	texts = nil
	mu.Unlock()
	s.until(t, `"name":"plan","gone":true`)
}

// While texts are asked for, which may take long, events are told on, and nobody asks a second time; Close
// ends it.
func TestSlowTexts(t *testing.T) {
	f := &fake{}
	asked := make(chan struct{}, 10)
	h, url := serve(t, Config{Source: func() Source { return f }, Texts: func(ctx context.Context) []watch.Info {
		asked <- struct{}{}
		<-ctx.Done()
		return nil
	}})
	s := open(t, url)
	<-asked
	f.tell(overload()...)
	s.until(t, `"e":"drop"`)
	if h.texts.ask(h.cfg.Texts) {
		t.Error("it is asked a second time meanwhile")
	}
	h.Close()
	if len(asked) != 0 || len(h.texts.place) != 0 {
		t.Errorf("after Close %d more were asked, and %d are still at it", len(asked), len(h.texts.place))
	}
}

// Always begins before there is a source, and finds it when it comes, though nobody looks.
func TestAlwaysFindsTheSource(t *testing.T) {
	f := &fake{}
	var now atomic.Pointer[fake]
	h := NewHub(Config{Always: true, Source: func() Source {
		if f := now.Load(); f != nil {
			return f
		}
		return nil
	}})
	defer h.Close()
	now.Store(f)
	await(t, "the source is watched", func() bool {
		on, _ := f.state()
		return on
	})
}

// The page is there, whole, and may load nothing of other hosts.
func TestPageIsEmbedded(t *testing.T) {
	_, url := serve(t, Config{})
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'self'") {
		t.Errorf("the policy is %q", policy)
	}
	all := string(text)
	for _, name := range []string{"main.js", "gantt.js", "store.js", "packed.js", "stream.js", "panels.js", "story.js", "palette.js", "format.js", "style.css"} {
		all += get(t, url+name, http.StatusOK)
	}
	for _, bad := range []string{"http://", "https://", "import(", "innerHTML", "eval("} {
		if i := strings.Index(all, bad); i >= 0 {
			t.Errorf("the page has %q: %.80q", bad, all[i:])
		}
	}
	for _, path := range []string{"../serve.go", "nothing.js"} {
		get(t, url+path, http.StatusNotFound)
	}
}

// The page knows all reasons by their numbers. That it reads what is packed as it was told is tested in a browser
// (cmd/symphony/uie2e).
func TestPageKnowsReasons(t *testing.T) {
	text, err := page.ReadFile("page/packed.js")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := range wire.Reason(wire.ReasonCount) {
		names = append(names, r.String())
	}
	if want := `const reasons = "` + strings.Join(names, " ") + `".split(" ")`; !strings.Contains(string(text), want) {
		t.Errorf("packed.js lacks %s", want)
	}
	names = nil
	for w := watch.WhyNone; w <= watch.Stray; w++ {
		names = append(names, w.String())
	}
	if want := `const whys = "` + strings.Join(names, ",") + `".split(",")`; !strings.Contains(string(text), want) {
		t.Errorf("packed.js lacks %s", want)
	}
}

// An event is told as one line of data, whatever names are made of.
func TestLinesOfData(t *testing.T) {
	f := &fake{}
	f.tell(watch.Event{Kind: watch.Text, Info: &watch.Info{Name: "a\nb", Lines: []string{"x\r\n\ndata: y"}}})
	h := NewHub(Config{Source: func() Source { return f }, Always: true})
	defer h.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	text := ends(h.history.Append(nil, 0, data), 1)
	if n := bytes.Count(text, []byte("\n")); n != len(surroundings())+3 || !bytes.HasSuffix(text, []byte("\n\n")) || bytes.Count(text, []byte("\n"+data)) != n-2 {
		t.Errorf("%d lines: %q", n, text)
	}
	if !bytes.HasPrefix(text, []byte(data)) {
		t.Errorf("it begins with %q", text[:6])
	}
}

// What a look is sent in is the next one's memory once all have sent it on, and not before; with nobody left it
// is given back.
func TestChunksAreReused(t *testing.T) {
	f := &fake{}
	h := NewHub(Config{Source: func() Source { return f }, Always: true})
	h.mu.Lock()
	a, b := &viewer{chunks: make(chan *chunk, behindMost)}, &viewer{chunks: make(chan *chunk, behindMost)}
	h.viewers[a], h.viewers[b] = true, true
	h.turn()
	first := <-a.chunks
	h.sent(first)
	h.turn() // b has not sent it
	if second := <-a.chunks; second == first || <-b.chunks != first || <-b.chunks != second {
		t.Error("a chunk is written anew that somebody has still to send")
	}
	h.sent(first)
	h.turn()
	if third := <-a.chunks; third != first {
		t.Error("a chunk that both have sent is not used again")
	}
	h.cutAll()
	h.sent(first) // b was cut off with it in hand
	if len(h.spare) != 0 {
		t.Error("a chunk is used again that one who was cut off may still be sending")
	}
	h.sent(&chunk{})
	h.mu.Unlock()
	h.Close()
	if h.history.Len() != 0 || len(h.spare) != 0 || h.told.Words != nil {
		t.Errorf("after its end %d events and %d chunks are kept", h.history.Len(), len(h.spare))
	}
}
