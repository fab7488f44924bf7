package watch

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pagedStory is a pool of two GPUs that load models on demand; a batch of one takes 5 ms.
type pagedStory struct {
	history *History
	state   State
}

func newPagedStory() *pagedStory {
	p := &pagedStory{history: NewHistory(60*mono.Second, 1<<20)}
	p.tell(Event{Kind: Pool, At: 1, Info: &Info{Name: "v100", GPUs: 2, Page: 16 << 20}}, Event{Kind: GPU, At: 1, Info: &Info{}}, Event{Kind: GPU, At: 1, GPU: 1, Info: &Info{}})
	for id, name := range []string{"a", "b", "c"} {
		p.tell(Event{Kind: Model, At: 1, Model: wire.ModelID(id), Info: &Info{Name: name, SLO: 100 * mono.Millisecond, MaxBatch: 4, Profile: &catalog.Profile{Alpha: 1e6, Beta: 4e6}}})
	}
	return p
}

func (p *pagedStory) tell(all ...Event) {
	for i := range all {
		p.state.Apply(&all[i])
		p.history.Add(&all[i])
	}
}

// after is so many ms after the request of all these stories comes.
func after(n float64) mono.Time { return 10*mono.Time(mono.Second) + mono.Time(n*float64(ms)) }

var asked = Request{Key: Key{2, 7}, Arrival: after(0), Came: after(0), Deadline: after(100)}

func (p *pagedStory) story(t *testing.T) (*Story, string) {
	t.Helper()
	s, err := Tell(p.history, &p.state, asked.Key)
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.Join(s.Lines(&p.state), "\n")
}

func batchOf(model int, gpu int, number int, sent, exec float64, requests ...Request) []Event {
	e := Event{Kind: Batch, At: after(sent), Model: wire.ModelID(model), GPU: wire.GPUID(gpu), Batch: wire.BatchID(number << 16), Exec: after(exec), Until: after(exec + 5), Size: max(1, int32(len(requests))), Requests: requests}
	return []Event{e, {Kind: Done, At: after(exec + 5), Model: e.Model, GPU: e.GPU, Batch: e.Batch, Exec: e.Exec, Until: e.Until, Size: e.Size}}
}

func mentions(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the story is\n%s\nwant %q in it", text, w)
		}
	}
}

// A cold request's story names the load that it waited for, who made room for it, and why the weights had gone; another
// model's load, and the copy of later, are not its.
func TestStoryOfColdRequest(t *testing.T) {
	p := newPagedStory()
	p.tell(batchOf(0, 1, 1, -3000, -2990)...)
	p.tell(Event{Kind: Evict, At: after(-2000), Model: 0, GPU: 1, Why: Room, For: 2, Until: after(-2985)},
		Event{Kind: Load, At: after(-2000), Model: 2, GPU: 1, Batch: 8, Why: Cold, Size: 7, Exec: after(-2000), Until: after(-1992)},
		Event{Kind: Evict, At: after(0.5), Model: 1, GPU: 0, Why: Room, For: 0, Until: after(-500)},
		Event{Kind: Load, At: after(0.5), Model: 0, GPU: 0, Batch: 9, Why: Cold, Size: 7, Exec: after(0.5), Until: after(8.5)},
		Event{Kind: Loaded, At: after(9), Model: 0, GPU: 0, Batch: 9, Why: Arrived, Exec: after(1), Until: after(9)},
		Event{Kind: Load, At: after(30), Model: 0, GPU: 1, Batch: 10, Why: Copy, Size: 7, Exec: after(30), Until: after(38)})
	p.tell(batchOf(0, 0, 2, 80, 85, asked)...)
	s, text := p.story(t)
	if s.Outcome != Served || s.Load == nil || s.Load.ID != 9 || s.Gone == nil {
		t.Errorf("outcome %v, load %+v, gone %+v", s.Outcome, s.Load, s.Gone)
	}
	mentions(t, text, "was served in time", "they came to GPU 0 at +9.0 ms", "-2000.0 ms  its model's weights go from GPU 1, to make room for c (used last 985.0 ms before)",
		"+0.5 ms  no GPU has its model's weights: their load onto GPU 0 is ordered (7 pages), to end at +8.5 ms", "b (used last 500.5 ms before) makes room", "copied in 8.0 ms, 500 us after the plan")
}

// Weights that best effort alone has used have no last use: they are told of without one, in all forms of the event.
func TestStoryOfRoomThatBestEffortMade(t *testing.T) {
	p := newPagedStory()
	evict := Event{Kind: Evict, At: after(0.5), Model: 1, GPU: 0, Why: Room, For: 0, Until: mono.Past}
	gone := Event{Kind: Evict, At: after(-5), Model: 0, GPU: 1, Why: Room, For: 2, Until: mono.Past}
	p.tell(gone, evict, Event{Kind: Load, At: after(0.5), Model: 0, GPU: 0, Batch: 9, Why: Cold, Size: 7, Exec: after(0.5), Until: after(8.5)},
		Event{Kind: Loaded, At: after(9), Model: 0, GPU: 0, Batch: 9, Why: Arrived, Exec: after(1), Until: after(9)})
	p.tell(batchOf(0, 0, 2, 80, 85, asked)...)
	_, text := p.story(t)
	mentions(t, text, "b (used for best effort alone) makes room", "to make room for c (used for best effort alone)")
}

// One whose weights were there tells of no load.
func TestStoryOfWarmRequest(t *testing.T) {
	p := newPagedStory()
	p.tell(Event{Kind: Load, At: after(-20), Model: 0, GPU: 0, Batch: 9, Why: Cold, Size: 7, Exec: after(-20), Until: after(-12)},
		Event{Kind: Loaded, At: after(-12), Model: 0, GPU: 0, Batch: 9, Why: Arrived, Exec: after(-20), Until: after(-12)})
	p.tell(batchOf(0, 0, 2, 80, 85, asked)...)
	if s, text := p.story(t); s.Load != nil || s.Gone != nil || strings.Contains(text, "weights") {
		t.Errorf("the story is\n%s", text)
	}
}

// One that no load could save says by how much it was too late, and what would have saved it.
func TestStoryOfRequestGivenUpCold(t *testing.T) {
	p := newPagedStory()
	p.tell(Event{Kind: Evict, At: after(-2000), Model: 0, GPU: 1, Why: Room, For: 2, Until: after(-2985)},
		Event{Kind: Load, At: after(1), Model: 0, GPU: 0, Batch: 9, Why: Cold, Size: 7, Exec: after(90), Until: after(98)},
		Event{Kind: Drop, At: after(2), Model: 0, Reason: wire.ReasonCold, Request: asked})
	s, text := p.story(t)
	if s.Cause != CauseCold {
		t.Errorf("the cause is %v", s.Cause)
	}
	mentions(t, text, "was dropped (cold)", "no GPU had its model's weights, and their load onto GPU 0 was to end at +98.0 ms, 3.0 ms too late", "they went from GPU 1 at -2000.0 ms, to make room for c",
		"an SLO longer by 3.0 ms", "more pages")
	q := newPagedStory()
	q.tell(Event{Kind: Drop, At: after(2), Model: 0, Reason: wire.ReasonCold, Request: asked})
	_, text = q.story(t)
	mentions(t, text, "no load of them could have ended in time; for other models nothing was loaded, either; when they went from one last is not among the events")
}

// One that no load was even ordered for says what the loaders did meanwhile: of other models, not what they had done before.
func TestStoryOfRequestWithoutLoad(t *testing.T) {
	p := newPagedStory()
	for i, until := range []float64{-1, 20, 40, 30} { // the first has ended when it comes
		p.tell(Event{Kind: Load, At: after(-50 + float64(i)), Model: wire.ModelID(1 + i%2), GPU: wire.GPUID(i / 3), Batch: wire.BatchID(20 + i), Why: Cold, Size: 7, Exec: after(until - 8), Until: after(until)})
	}
	p.tell(Event{Kind: Evict, At: after(3), Model: 0, GPU: 1, Why: Room, For: 2, Until: after(-985)}, // while it waits
		Event{Kind: Drop, At: after(60), Model: 0, Reason: wire.ReasonCold, Request: asked})
	_, text := p.story(t)
	mentions(t, text, "loads of other models were under way, 1 onto GPU 1 until +30.0 ms, 2 onto GPU 0 until +40.0 ms; they went from GPU 1 at +3.0 ms, to make room for c")
}

// One that was dropped by its deadline while no GPU had its model's weights says so, and is not of an unknown cause.
func TestStoryOfDeadlineWithoutWeights(t *testing.T) {
	drop := Event{Kind: Drop, At: after(95), Model: 0, Reason: wire.ReasonDeadline, Request: asked}
	gone := Event{Kind: Evict, At: after(-2000), Model: 0, GPU: 1, Why: Room, For: 2, Until: after(-2985)}
	load := Event{Kind: Load, At: after(1), Model: 0, GPU: 0, Batch: 9, Why: Cold, Size: 7, Exec: after(80), Until: after(90)}
	late := Event{Kind: Loaded, At: after(99), Model: 0, GPU: 0, Batch: 9, Why: Arrived, Exec: after(82), Until: after(99)}
	held := func(n int) Event { return Event{Kind: Counts, At: after(500), Info: &Info{Came: 1, Held: n}} }
	for _, c := range []struct {
		name   string
		events []Event
		cause  Cause
		want   string
	}{
		{"its load was late", []Event{gone, load, late, drop}, CauseCold, "their load onto GPU 0 ended at +99.0 ms, 4.0 ms too late; they went from GPU 1 at -2000.0 ms"},
		{"they had gone", []Event{gone, drop}, CauseCold, "no load of them was ordered while it waited; for other models nothing was loaded, either; they went from GPU 1"},
		{"they were nowhere", []Event{drop, held(0)}, CauseCold, "when they went from one last is not among the events"},
		{"they were somewhere", []Event{drop, held(2)}, CauseUnknown, "its model's weights were on a GPU or on their way there (2 in all)"},
		{"nothing is known", []Event{drop}, CauseUnknown, "nor is where its model's weights were"},
	} {
		p := newPagedStory()
		p.tell(batchOf(1, 1, 1, -5000, -5000)...) // what is kept begins before
		p.tell(c.events...)
		s, text := p.story(t)
		if s.Cause != c.cause {
			t.Errorf("%s: the cause is %v, want %v", c.name, s.Cause, c.cause)
		}
		mentions(t, text, "was dropped (deadline)", c.want)
	}
}

// Weights that came while a request waited are no idle GPU before that.
func TestStoryOfWeightsThatCame(t *testing.T) {
	p := newPagedStory()
	p.tell(Event{Kind: Load, At: after(1), Model: 0, GPU: 0, Batch: 9, Why: Cold, Size: 7, Exec: after(2), Until: after(90)},
		Event{Kind: Loaded, At: after(90), Model: 0, GPU: 0, Batch: 9, Why: Arrived, Exec: after(2), Until: after(90)})
	p.tell(batchOf(1, 1, 1, 50, 50)...) // on a GPU that has not its model's weights
	p.tell(Event{Kind: Drop, At: after(96), Model: 0, Reason: wire.ReasonDeadline, Request: asked})
	s, text := p.story(t)
	if len(s.GPUs) != 1 || s.GPUs[0].FreeAt != after(90) || s.LostTo != nil {
		t.Errorf("GPUs %+v, lost to %+v:\n%s", s.GPUs, s.LostTo, text)
	}
}

// A GPU that was free and had other models' weights is not one that could have run it: the scheduler was not late.
func TestStoryCountsHolders(t *testing.T) {
	p := newPagedStory()
	p.tell(batchOf(0, 0, 1, -100, -90)...) // GPU 0 has its weights, GPU 1 is idle all the time
	p.tell(Event{Kind: Batch, At: after(-1), Model: 1, GPU: 0, Batch: 2 << 16, Exec: after(-1), Until: after(120), Size: 4})
	p.tell(Event{Kind: Drop, At: after(95), Model: 0, Reason: wire.ReasonDeadline, Request: asked})
	s, text := p.story(t)
	if s.Cause != CauseLongBatch || len(s.GPUs) != 1 || s.GPUs[0].GPU != 0 {
		t.Errorf("cause %v, GPUs %+v:\n%s", s.Cause, s.GPUs, text)
	}
}

// What a GPU's loader did is told as it changes: rates are of the last second, and old ones of nothing.
func TestMemoryRates(t *testing.T) {
	p := newPagedStory()
	at := func(second int, m MemoryInfo) {
		p.tell(Event{Kind: Memory, At: mono.Time(second) * mono.Time(mono.Second), GPU: 1, Info: &Info{Memory: &m}})
	}
	at(10, MemoryInfo{Pages: 140, Free: 7, Held: 19, Cold: 100, Room: 90})
	at(70, MemoryInfo{Pages: 140, Free: 0, Held: 20, Cold: 103, Copies: 1, Room: 92, Removed: 1, Busy: 33 * mono.Millisecond, Oldest: 5})
	g := &p.state.Pool(0).Rows[1]
	if r := g.Memory.Rates(70 * mono.Time(mono.Second)); r.Cold != 3 || r.Copies != 1 || r.Room != 2 || r.Removed != 1 || r.Busy != 0.033 {
		t.Errorf("rates %+v", r)
	}
	if r := g.Memory.Rates(73 * mono.Time(mono.Second)); r != (MemoryRates{}) {
		t.Errorf("rates of long ago are %+v", r)
	}
	p.tell(Event{Kind: GPU, At: 70 * mono.Time(mono.Second), GPU: 0, Info: &Info{}}, Event{Kind: Memory, At: 70 * mono.Time(mono.Second), Info: &Info{Memory: &MemoryInfo{Pages: 60, Held: 2, Oldest: 3}}})
	sum, rates, gpus := p.state.Pool(0).Memory(70 * mono.Time(mono.Second))
	if gpus != 2 || sum.Pages != 200 || sum.Held != 22 || sum.Oldest != 3 || rates.Cold != 3 || rates.Busy != 0.033/2 {
		t.Errorf("%d GPUs: %+v, %+v", gpus, sum, rates)
	}
	var again State // of who comes later
	for _, e := range p.state.Surroundings(80 * mono.Time(mono.Second)) {
		again.Apply(&e)
	}
	if sum2, _, n := again.Pool(0).Memory(80 * mono.Time(mono.Second)); n != 2 || sum2 != sum {
		t.Errorf("who comes later sees %+v of %d, want %+v", sum2, n, sum)
	}
	p.tell(Event{Kind: GPU, At: 80 * mono.Time(mono.Second), GPU: 1, Info: &Info{Gone: true}})
	if _, _, n := p.state.Pool(0).Memory(80 * mono.Time(mono.Second)); n != 1 {
		t.Errorf("%d GPUs are there after one went", n)
	}
}

// A model's hits are those of lately, or of ever; its rates end with its requests.
func TestModelHits(t *testing.T) {
	p := newPagedStory()
	count := func(second int, i Info) {
		p.tell(Event{Kind: Counts, At: mono.Time(second) * mono.Time(mono.Second), Info: &i})
	}
	m := p.state.Model(0)
	if _, ok := m.Hits(); ok {
		t.Error("there are hits before any request")
	}
	count(1, Info{Came: 10, Warm: 5, Cold: 5, Held: 1})
	count(2, Info{Came: 20, Warm: 14, Cold: 6, Held: 2, Loads: 3, Unmet: 7})
	if share, ok := m.Hits(); !ok || share != 0.9 || m.Counted().Held != 2 || m.RateAt(2*mono.Time(mono.Second)).Came != 10 {
		t.Errorf("%v, %v, %+v", share, ok, m.Counted())
	}
	count(3, Info{Came: 20, Warm: 14, Cold: 6})
	if share, ok := m.Hits(); !ok || share != 0.7 {
		t.Errorf("of ever: %v, %v, want 0.7", share, ok)
	}
	if r := m.RateAt(60 * mono.Time(mono.Second)); r.Came != 0 {
		t.Errorf("a minute later it has %v requests/s", r.Came)
	}
}
