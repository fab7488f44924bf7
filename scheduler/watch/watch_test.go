package watch

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Time(mono.Millisecond)

// all is one event of each kind.
func all() []Event {
	key := func(f, id int) Key { return Key{wire.FrontendID(f), wire.RequestID(id)} }
	return []Event{
		{Kind: Pool, At: 1, Pool: 1, Info: &Info{Name: "a100", GPUs: 2, Kept: 1, Need: 1.25, Spent: 0.5, Setting: "0.5", Ctrl: 1000, Data: 2}},
		{Kind: GPU, At: 2, Pool: 1, GPU: 1, Info: &Info{Name: "b/0"}},
		{Kind: Model, At: 3, Pool: 1, Model: 2, Info: &Info{Name: "m", SLO: 25_000_000, MaxBatch: 8, Profile: &catalog.Profile{Alpha: 1_000_000, Beta: 5_000_000}}},
		{Kind: Queue, At: 4 * ms, Pool: 1, Model: 2, Size: 3, Queued: 4, Exec: 5 * ms, Until: 6 * ms, Due: 7},
		{Kind: Batch, At: 5 * ms, Pool: 1, Model: 2, GPU: 1, Batch: 1<<56 | 7<<16, Due: 8, Exec: 6 * ms, Until: 13 * ms, Size: 2,
			Requests: []Request{{Key: key(3, math.MaxInt64), Arrival: -5, Deadline: 25 * ms}, {Key: key(0, 1), Arrival: 1, Deadline: 26 * ms}}},
		{Kind: Done, At: 14 * ms, Pool: 1, Model: 2, GPU: 1, Batch: 1<<56 | 7<<16, Exec: 6*ms + 1, Until: 13*ms + 2, Fetch: 17, Size: 2},
		{Kind: Drop, At: 15 * ms, Pool: 1, Model: 2, Reason: wire.ReasonShed, Margin: 9, Request: Request{Key: key(1, 255), Arrival: 1, Came: 2, Deadline: 3}},
		{Kind: Counts, At: 16 * ms, Model: 2, Info: &Info{Came: 10, Served: 5, Late: 1, Dropped: map[string]uint64{"shed": 2, "deadline": 1}}},
		{Kind: Link, At: 17 * ms, Info: &Info{Name: "backend b", Role: "backend", Delay: 12, RTT: 20}},
		{Kind: Text, At: 18 * ms, Info: &Info{Name: "plan", Lines: []string{"epoch 3", `a "quoted" word`}}},
		{Kind: Load, At: 18 * ms, Pool: 1, Model: 2, GPU: 1, Batch: 3<<24 | 1, Why: Cold, Size: 7, Exec: 18 * ms, Until: 26 * ms},
		{Kind: Loaded, At: 27 * ms, Pool: 1, Model: 2, GPU: 1, Batch: 3<<24 | 1, Why: Failed, Exec: 19 * ms, Until: 27 * ms},
		{Kind: Evict, At: 18 * ms, Pool: 1, Model: 3, GPU: 1, Why: Room, For: 2, Until: 5 * ms},
		{Kind: Memory, At: 18 * ms, Pool: 1, GPU: 1, Info: &Info{Memory: &MemoryInfo{Pages: 140, Free: 7, Held: 19, Loading: 1, Oldest: 3, Cold: 4, Copies: 5, Failed: 6, Room: 7, Removed: 8, Stray: 9, Busy: 10}}},
		{Kind: Missed, At: 19 * ms, Size: 12},
	}
}

// What is written is read again, whole, and written the same.
func TestDocument(t *testing.T) {
	for _, e := range all() {
		text := e.Append(nil)
		back, ok, err := Parse(text)
		if err != nil || !ok || !reflect.DeepEqual(back, e) {
			t.Errorf("%s is read as %+v, %v, want %+v", text, back, err, e)
		}
		if again := back.Append(nil); !bytes.Equal(again, text) {
			t.Errorf("%s is written again as %s", text, again)
		}
	}
	head := NewHead("live", `a "title"`, 17)
	if back, err := ParseHead(head.Append(nil)); err != nil || back != head {
		t.Errorf("the head is read as %+v, %v", back, err)
	}
}

// Counts, which are written by hand, are as encoding/json has them.
func TestCounts(t *testing.T) {
	for _, i := range []Info{{}, {Came: 1}, {Came: 12, Served: 9, Late: 2, Dropped: map[string]uint64{"deadline": 1}}, {Late: 1<<64 - 1, Dropped: map[string]uint64{"shed": 3, "deadline": 0, "cancelled": 7}},
		{Warm: 1, Cold: 2, Loads: 3, Held: 4, Unmet: 5}, {Came: 7, Unmet: -1, Dropped: map[string]uint64{"cold": 1}},
		{Came: 3, Dropped: map[string]uint64{"shed": 3, "of tomorrow": 1}}} {
		e := Event{Kind: Counts, At: 5, Pool: 1, Model: 2, Info: &i}
		text := e.Append(nil)
		again, ok, err := Parse(bytes.TrimSpace(text))
		if err != nil || !ok || !reflect.DeepEqual(again, e) {
			t.Errorf("%s: %+v, %v, want %+v", text, again.Info, err, i)
		}
	}
	i := Info{Came: 12, Served: 9, Late: 2, Warm: 8, Cold: 3, Loads: 2, Held: 1, Unmet: 77, Dropped: map[string]uint64{"deadline": 1, "shed": 2}}
	e := Event{Kind: Counts, Info: &i}
	buffer := e.Append(nil)
	if n := testing.AllocsPerRun(100, func() { buffer = e.Append(buffer[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDocumentRefusals(t *testing.T) {
	for text, want := range map[string]string{
		``: "first line", `{}`: "first line", `[1]`: "first line",
		`{"symphony":"schedule","version":2}`: "version 2, this symphony reads version 1",
	} {
		if _, err := ParseHead([]byte(text)); !errors.Is(err, ErrDocument) || !strings.Contains(err.Error(), want) {
			t.Errorf("head %q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{`{`, `{"e":"batch"}`, `{"e":"batch","batch":"zz"}`, `{"e":"batch","batch":"1","requests":[1]}`, `{"e":"batch","batch":"1","requests":["1",2,3]}`,
		`{"e":"drop","request":"x"}`, `{"e":"model"}`, `{"e":"gpu","gpu":99999999,"info":{}}`, `{"e":"pool","pool":-1,"info":{}}`, `{"e":"done","t":"now"}`} {
		if _, ok, err := Parse([]byte(text)); !errors.Is(err, ErrDocument) || ok {
			t.Errorf("%s: %v, %v, want it refused", text, ok, err)
		}
	}
	if _, ok, err := Parse([]byte(`{"e":"of a later version","t":3}`)); ok || err != nil {
		t.Errorf("an unknown kind: %v, %v, want it passed over", ok, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range all() {
		f.Add(e.Append(nil))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, ok, err := Parse(text)
		if err != nil || !ok {
			return
		}
		var s State
		s.Apply(&Event{Kind: Pool, Info: &Info{}})
		s.Apply(&e)
		back, ok, err := Parse(e.Append(nil))
		if err != nil || !ok || back.Kind != e.Kind || back.Batch != e.Batch || len(back.Requests) != len(e.Requests) {
			t.Errorf("%s is written as what is not read again: %+v, %v", text, back, err)
		}
	})
}

func TestKeys(t *testing.T) {
	for _, text := range []string{"0-0", "7-ff", "4294967295-ffffffffffffffff"} {
		if k, err := ParseKey(" " + text + "\n"); err != nil || k.String() != text {
			t.Errorf("%s is read as %v, %v", text, k, err)
		}
	}
	for _, text := range []string{"", "7", "-", "x-1", "1-x", "1-2-3", "4294967296-1"} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is taken for a request", text)
		}
	}
}

// eventsOf are the events that are kept.
func eventsOf(h *History) (all []Event) {
	for i := range h.n {
		var d decoder // each with its own memory
		all = append(all, d.decode(h.at(i), allKinds)...)
	}
	return all
}

// A history is bounded by age and by bytes, and says from when on it is whole.
func TestHistory(t *testing.T) {
	h := NewHistory(mono.Second, 1<<20)
	for i := range 5000 {
		h.Add(&Event{Kind: Missed, At: mono.Time(i) * ms, Size: 1})
	}
	// The oldest piece goes as a whole, once all of it is too old.
	if n := h.Len(); n < 1001 || n > 1001+2*1000/piecesOfSpan || h.From() != mono.Time(4999-n)*ms || h.To() != 4999*ms || eventsOf(h)[0].At != mono.Time(5000-n)*ms || h.Missed() != uint64(n) || h.First() != uint64(5000-n) || h.Next() != 5000 {
		t.Errorf("%d events from %v to %v, first %v, %d missed", h.Len(), h.From(), h.To(), eventsOf(h)[0].At, h.Missed())
	}
	late := NewHistory(mono.Second, 1<<20) // a document begins with surroundings as they were at its end
	late.Add(&Event{Kind: Pool, At: 500 * ms, Info: &Info{}})
	late.Add(&Event{Kind: Batch, At: 100 * ms})
	if late.From() != 100*ms || late.To() != 500*ms {
		t.Errorf("from %v to %v, want 100 to 500 ms", late.From(), late.To())
	}
	h = NewHistory(mono.Second, 2000)
	for i := range 1000 {
		h.Add(&Event{Kind: Batch, At: mono.Time(i)})
		if h.bytes > 2000 || len(h.spare) > sparesMost {
			t.Fatalf("%d bytes, %d spares", h.bytes, len(h.spare))
		}
	}
	if n := h.Len(); n < 10 || n > 200 || h.First() == 0 || h.From() == 0 {
		t.Errorf("%d events are within 2000 bytes", n)
	}
	h.Add(&Event{Kind: Batch, At: 1000, Requests: make([]Request, 1000)})
	if h.Close(); h.Len() != 1 || eventsOf(h)[0].At != 1000 {
		t.Errorf("%d events after a large one, want it alone", h.Len())
	}
	if h.Clear(); h.Len() != 0 || h.Missed() != 0 {
		t.Error("something is left after Clear")
	}
}

// The picture follows the events.
func TestState(t *testing.T) {
	var s State
	for _, e := range all() {
		s.Apply(&e)
	}
	p, m := s.Pool(1), s.Model(2)
	if p == nil || p.Name != "a100" || !p.Rows[1].Present || p.Rows[0].Present || p.Rows[1].From != 6*ms+1 || p.Rows[1].Size != 2 {
		t.Fatalf("pool %+v", p)
	}
	if m == nil || m.Profile.Latency(2) != 7_000_000 || m.Queue.Queued != 4 {
		t.Fatalf("model %+v", m)
	}
	if latency, size, ok := m.Recent(0.99); !ok || latency != 13_000_005 || size != 2 {
		t.Errorf("p99 %v, size %v, want 13.000005 ms and 2", latency, size)
	}
	s.Apply(&Event{Kind: Counts, At: 1016 * ms, Model: 2, Info: &Info{Came: 110, Served: 85, Late: 6, Dropped: map[string]uint64{"shed": 7, "deadline": 11}}})
	if r := m.Rate; r.Came != 100 || r.Served != 80 || r.Late != 5 || r.Dropped != 15 || len(r.Reasons) != 2 || r.Reasons[0].Reason != "deadline" || r.Bad() != 0.2 {
		t.Errorf("rates %+v, bad %v", r, r.Bad())
	}
	s.Apply(&Event{Kind: Model, Model: 2, Info: &Info{Gone: true}})
	s.Apply(&Event{Kind: Link, Info: &Info{Name: "backend b", Gone: true}})
	if s.Model(2) != nil || len(s.Links) != 0 || s.Name(2) != "model 2" || s.Missed != 12 {
		t.Errorf("after its end: %+v, links %v, %d missed", s.Model(2), s.Links, s.Missed)
	}
}

// Who begins with the surroundings knows what there is, and not the counts of later.
func TestSurroundings(t *testing.T) {
	var s, again State
	for _, e := range all() {
		s.Apply(&e)
	}
	counts := 0
	for _, e := range s.Surroundings(10 * ms) {
		again.Apply(&e)
		if e.Kind == Counts {
			counts++
		}
	}
	if counts != 0 || again.Pool(1).Name != "a100" || !again.Pool(1).Rows[1].Present || again.Model(2).Profile == nil || len(again.Links) != 1 || len(again.Texts) != 1 {
		t.Errorf("%d counts of later; pool %+v, model %+v", counts, again.Pool(1), again.Model(2).Info)
	}
	for _, e := range s.Surroundings(20 * ms) {
		if e.Kind == Counts {
			counts++
		}
	}
	if counts != 1 {
		t.Errorf("%d counts of before, want one", counts)
	}
}

// A GPU's busy share is that of the last seconds.
func TestBusy(t *testing.T) {
	var g GPUState
	for at := mono.Time(0); at < 3000*ms; at += 50 * ms {
		g.ran(at, at+30*ms)
	}
	if b := g.Busy(3000 * ms); math.Abs(b-0.6) > 1e-9 {
		t.Errorf("busy %v, want 0.6", b)
	}
	if b := g.Busy(9000 * ms); b != 0 {
		t.Errorf("busy %v after six idle seconds, want 0", b)
	}
	g.ran(-50*ms, -20*ms) // of before the clock began
}

// What nobody has told of has no story, and the error says what is kept.
func TestNoStory(t *testing.T) {
	h := NewHistory(mono.Second, 1<<20)
	if _, err := Tell(h, &State{}, Key{1, 2}); !errors.Is(err, ErrNotKnown) || !strings.Contains(err.Error(), "1-2") {
		t.Errorf("%v, want that nothing is known of 1-2", err)
	}
}

// A way to the scheduler that was shorter than what was missing could not have saved a request.
func TestNoShorterWay(t *testing.T) {
	for came, want := range map[mono.Time]string{101 * ms: "a deadline later by 5.0 ms", 108 * ms: "a way to the scheduler shorter by 5.0 ms"} {
		story := Story{Cause: CauseLateRecord, Request: Request{Arrival: 100 * ms, Came: came}, First: 110 * ms, Last: 105 * ms}
		if story.saved(&State{}); len(story.Saved) != 1 || !strings.HasPrefix(story.Saved[0], want) {
			t.Errorf("came at %v: %q, want %q", came, story.Saved, want)
		}
	}
}

// Where events are missing the story says so, and blames nobody.
func TestStoryWithGaps(t *testing.T) {
	h, s := NewHistory(mono.Second, 1<<20), &State{}
	for _, e := range []Event{
		{Kind: Pool, Info: &Info{GPUs: 1}}, {Kind: GPU, Info: &Info{}},
		{Kind: Model, Info: &Info{Name: "m", SLO: 20 * mono.Millisecond, MaxBatch: 4, Profile: &catalog.Profile{Alpha: 1e6, Beta: 4e6}}},
		{Kind: Missed, At: ms, Size: 3},
		{Kind: Drop, At: 15 * ms, Reason: wire.ReasonDeadline, Request: Request{Key: Key{0, 1}, Came: 1, Deadline: 20 * ms}},
	} {
		h.Add(&e)
		s.Apply(&e)
	}
	story, err := Tell(h, s, Key{0, 1})
	if err != nil || story.Cause != CauseUnknown || !story.Gaps || story.Needed != nil {
		t.Fatalf("%+v, %v, want an unknown cause", story, err)
	}
	if text := strings.Join(story.Lines(s), "\n"); !strings.Contains(text, "may be missing") {
		t.Errorf("the text does not say that events are missing:\n%s", text)
	}
}

// Reasons that need no GPU are told as they are.
func TestStoryOfRefusals(t *testing.T) {
	for _, reason := range []wire.Reason{wire.ReasonFull, wire.ReasonUnavailable, wire.ReasonUnknownModel, wire.ReasonDraining} {
		h, s := NewHistory(mono.Second, 1<<20), &State{}
		h.Add(&Event{Kind: Drop, Reason: reason, Request: Request{Key: Key{0, 1}}})
		story, err := Tell(h, s, Key{0, 1})
		if err != nil || story.Cause != CauseRefused || len(story.Saved) == 0 || story.Needed != nil {
			t.Errorf("%v: %+v, %v, want it refused, with advice", reason, story, err)
		}
	}
}

// Lost lists the newest first, late ones among them.
func TestLost(t *testing.T) {
	h := NewHistory(mono.Second, 1<<20)
	for _, e := range all() {
		h.Add(&e)
	}
	h.Add(&Event{Kind: Batch, Batch: 9, At: 20 * ms, Requests: []Request{{Key: Key{0, 5}, Deadline: 30 * ms}, {Key: Key{0, 6}, Deadline: 50 * ms}}})
	h.Add(&Event{Kind: Done, Batch: 9, At: 41 * ms, Until: 40 * ms})
	lost := Lost(h, 10)
	if len(lost) != 2 || lost[0].Key.ID != 5 || lost[0].Outcome != Late || lost[0].Late != 10*mono.Millisecond || lost[1].Outcome != Dropped {
		t.Errorf("%+v, want request 5, late by 10 ms, and the drop", lost)
	}
	if one := Lost(h, 1); len(one) != 1 {
		t.Errorf("%d of at most 1", len(one))
	}
}

// A batch of a document may be as long as a number can be: its GPU was busy, and nothing is counted slot by
// slot for it.
func TestBusyOfEndlessBatch(t *testing.T) {
	const begin, end = mono.Time(-9e18), mono.Time(9e18)
	counted := make(chan float64, 1)
	go func() {
		s := &State{}
		s.Apply(&Event{Kind: Pool, Info: &Info{Name: "a100", GPUs: 1}})
		s.Apply(&Event{Kind: Done, At: end, Exec: begin, Until: end})
		counted <- s.Pools[0].Rows[0].Busy(end)
	}()
	select {
	case busy := <-counted:
		if busy != 1 {
			t.Errorf("its GPU was busy for %v of the last seconds, want all", busy)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is still counted after 20 s")
	}
}

// Stories reckon with what a MiB takes and the model's own bytes, and with what each input takes in files of before that.
func TestStoryOfPictures(t *testing.T) {
	const arrival, exec, start = 100 * ms, 110 * ms, 115 * ms
	for _, c := range []struct {
		pool, model string // of a document
		bound, one  mono.Dur
	}{
		{`"ctrl":1000000,"mib":4000000`, `"bytes":524288`, 7 * mono.Millisecond, 3 * mono.Millisecond},
		{`"ctrl":1000000,"mib":4000000`, `"bytes":0`, mono.Millisecond, mono.Millisecond}, // a model without inputs to speak of
		{`"ctrl":1000000,"data":2000000`, `"slo":20000000`, 7 * mono.Millisecond, 3 * mono.Millisecond},
	} {
		h, s := NewHistory(mono.Second, 1<<20), &State{}
		add := func(e Event) {
			h.Add(&e)
			s.Apply(&e)
		}
		for _, text := range []string{`{"e":"pool","info":{"gpus":1,` + c.pool + `}}`, `{"e":"gpu","info":{}}`,
			`{"e":"model","model":0,"info":{"name":"other","max_batch":4,"profile":{"alpha_ns":1000000,"beta_ns":4000000},"bytes":12}}`,
			`{"e":"model","model":1,"info":{"name":"pictures","max_batch":4,"profile":{"alpha_ns":1000000,"beta_ns":4000000},` + c.model + `}}`} {
			e, ok, err := Parse([]byte(text))
			if err != nil || !ok {
				t.Fatalf("%s: %v, %v", text, ok, err)
			}
			add(e)
		}
		add(Event{Kind: Batch, Model: 1, Batch: 9, At: arrival, Exec: exec, Until: exec + 7*ms, Size: 3, Requests: []Request{{Key: Key{0, 1}, Arrival: arrival, Deadline: 120 * ms}}})
		add(Event{Kind: Done, Model: 1, Batch: 9, At: start + 8*ms, Exec: start, Until: start + 7*ms, Fetch: 15 * mono.Millisecond, Size: 3})
		story, err := Tell(h, s, Key{0, 1})
		if err != nil || story.Cause != CauseLateInputs {
			t.Fatalf("%+v, %v, want late inputs", story, err)
		}
		if got := story.First.Sub(arrival); got != c.one {
			t.Errorf("%s, %s: it could have started after %v, want %v", c.pool, c.model, got, c.one)
		}
		if got, want := strings.Join(story.Saved, "\n"), "within the network's bound, "+span(c.bound)+":"; !strings.Contains(got, want) {
			t.Errorf("%s, %s: %q would have saved it, want %q", c.pool, c.model, got, want)
		}
	}
}
