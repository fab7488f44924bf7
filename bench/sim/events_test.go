package sim

import (
	"bytes"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// script is a Source of given arrivals.
type script []struct {
	at    float64 // ms
	model int
}

func (s *script) Next() (mono.Time, int, bool) {
	if len(*s) == 0 {
		return 0, 0, false
	}
	a := (*s)[0]
	*s = (*s)[1:]
	return mono.Time(mono.FromMillis(a.at)), a.model, true
}

// told runs a script, and returns what its events leave.
func told(t *testing.T, cfg *Config, arrivals script) (*watch.History, *watch.State) {
	t.Helper()
	cfg.Source, cfg.Duration, cfg.NewPolicy = &arrivals, mono.Second, symphony
	h, s := watch.NewHistory(60*mono.Second, 1<<20), &watch.State{}
	Watch(cfg, func(e *watch.Event) {
		h.Add(e)
		s.Apply(e)
	})
	if _, err := Run(cfg, nil); err != nil {
		t.Fatal(err)
	}
	return h, s
}

// small is a model whose batches have at most most requests.
func small(t *testing.T, name string, alpha, beta, slo float64, most int) Model {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), most)
	if err != nil {
		t.Fatal(err)
	}
	return Model{Name: name, Profile: p, SLO: mono.FromMillis(slo)}
}

func tell(t *testing.T, h *watch.History, s *watch.State, id wire.RequestID) *watch.Story {
	t.Helper()
	story, err := watch.Tell(h, s, watch.Key{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + strings.Join(story.Lines(s), "\n"))
	return story
}

// ranOf is the batch that a request ran in.
func ranOf(t *testing.T, h *watch.History, s *watch.State, id wire.RequestID) wire.BatchID {
	t.Helper()
	story, err := watch.Tell(h, s, watch.Key{ID: id})
	if err != nil || story.Own == nil {
		t.Fatalf("request %d ran in no batch: %v", id, err)
	}
	return story.Own.Batch
}

// Overload: six requests at once for one GPU that takes two at a time in 11 ms, due in 20 ms. Two run;
// the others need to start by 10 ms, and the batch of the first two has the GPU until 11.
func TestStoryOfOverload(t *testing.T) {
	h, s := told(t, &Config{GPUs: 1, Models: []Model{small(t, "pair", 1, 9, 20, 2)}}, script{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}})
	first := ranOf(t, h, s, 1)
	story := tell(t, h, s, 6)
	if story.Outcome != watch.Dropped || story.Cause != watch.CauseOverload {
		t.Errorf("%s by %s, want dropped by overload", story.Outcome, story.Cause)
	}
	if story.Needed == nil || story.Needed.Batch != first || story.LostTo == nil || story.LostTo.Batch != first {
		t.Errorf("needed the GPU of %+v, lost to %+v, want batch %x for both", story.Needed, story.LostTo, first)
	}
	if story.Short != mono.Millisecond || len(story.Saved) == 0 {
		t.Errorf("short by %v, saved by %q, want 1 ms and something", story.Short, story.Saved)
	}
	if served := tell(t, h, s, 1); served.Outcome != watch.Served || served.Own.Batch != first {
		t.Errorf("request 1: %s in %+v, want served in batch %x", served.Outcome, served.Own, first)
	}
}

// A tight model behind a long batch: the long one has both GPUs from 0 to 100 and from 1 to 101 ms; a request
// of the tight one comes at 10 and must start by 25. What it waited for is the first.
func TestStoryOfALongBatch(t *testing.T) {
	h, s := told(t, &Config{GPUs: 2, Models: []Model{small(t, "long", 10, 90, 300, 4), small(t, "tight", 1, 4, 20, 4)}},
		script{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {10, 1}})
	first := ranOf(t, h, s, 1)
	story := tell(t, h, s, 9)
	if story.Outcome != watch.Dropped || story.Cause != watch.CauseLongBatch || story.Name != "tight" {
		t.Errorf("%s %s by %s, want tight dropped by long_batch", story.Name, story.Outcome, story.Cause)
	}
	if story.Needed == nil || story.Needed.Batch != first || story.Needed.Name != "long" || story.Needed.GPU != 0 {
		t.Fatalf("needed the GPU of %+v, want batch %x of long on GPU 0", story.Needed, first)
	}
	if want := story.Needed.End.Sub(story.Last); story.Short != want || want <= 0 {
		t.Errorf("short by %v, want %v", story.Short, want)
	}
	if text := strings.Join(story.Lines(s), "\n"); !strings.Contains(text, "one more GPU") || !strings.Contains(text, "4 of long") {
		t.Errorf("the text says neither what held the GPU nor what would have saved it:\n%s", text)
	}
}

// A late network: inputs take 12 ms, planned are 1. The first batch ends at 18 ms instead of 7, what queues behind
// it is late, and a request that must start by 15 finds the GPU held.
func TestStoryOfLateInputs(t *testing.T) {
	ms := mono.Millisecond
	cfg := &Config{GPUs: 1, Models: []Model{small(t, "one", 0, 5, 40, 1), small(t, "two", 0, 5, 17, 1), small(t, "three", 0, 5, 17, 1)}}
	cfg.Network = Network{Data: Constant(12 * ms)}
	cfg.Network.Bound.Data = ms
	h, s := told(t, cfg, script{{0, 0}, {1, 1}, {2, 2}})
	first := ranOf(t, h, s, 1)
	late := tell(t, h, s, 2)
	if late.Outcome != watch.Late || late.Cause != watch.CauseLateInputs || late.Needed == nil || late.Needed.Batch != first {
		t.Errorf("request 2 is %s by %s behind %+v, want late by late_inputs behind batch %x", late.Outcome, late.Cause, late.Needed, first)
	}
	story := tell(t, h, s, 3)
	if story.Outcome != watch.Dropped || story.Cause != watch.CauseLateInputs {
		t.Errorf("request 3 is %s by %s, want dropped by late_inputs", story.Outcome, story.Cause)
	}
	if story.Needed == nil || story.Needed.Batch != ranOf(t, h, s, 2) && story.Needed.Batch != first {
		t.Fatalf("needed the GPU of %+v, want that of request 1 or 2", story.Needed)
	}
	if text := strings.Join(story.Saved, "\n"); !strings.Contains(text, "network's bound") {
		t.Errorf("saved by %q, want inputs within the bound", text)
	}
}

// A late record: what the network takes 9 ms to bring has 6 ms left of its 15, and needs 7 with the bound.
func TestStoryOfALateRecord(t *testing.T) {
	ms := mono.Millisecond
	cfg := &Config{GPUs: 1, Models: []Model{small(t, "one", 0, 5, 15, 1)}}
	cfg.Network = Network{Ctrl: Constant(9 * ms)}
	cfg.Network.Bound.Ctrl = ms
	h, s := told(t, cfg, script{{0, 0}})
	story := tell(t, h, s, 1)
	if story.Outcome != watch.Dropped || story.Cause != watch.CauseLateRecord || story.Request.Came != mono.Time(9*ms) {
		t.Errorf("%s by %s, came at %v, want dropped by late_record, came at 9 ms", story.Outcome, story.Cause, story.Request.Came)
	}
}

// What a run tells is what it counts, and a document of it says the same again.
func TestEventsOfARun(t *testing.T) {
	cfg := zooConfig(t, 20000)
	cfg.Duration = mono.Second
	var doc []byte
	served, dropped := 0, 0
	Watch(cfg, func(e *watch.Event) {
		doc = e.Append(doc)
		switch e.Kind {
		case watch.Done:
			served += int(e.Size)
		case watch.Drop:
			dropped++
		}
	})
	r, err := Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if dropped == 0 || served == 0 {
		t.Fatalf("%d served and %d dropped, want some of both", served, dropped)
	}
	again, seen := 0, 0
	s := &watch.State{}
	for text := range bytes.Lines(doc) {
		e, ok, err := watch.Parse(text)
		if err != nil || !ok {
			t.Fatalf("%s: %v", text, err)
		}
		if seen++; e.Kind == watch.Drop {
			again++
		}
		s.Apply(&e)
		if back := e.Append(nil); !bytes.Equal(back, text) {
			t.Fatalf("read and written again %s becomes %s", text, back)
		}
	}
	if again != dropped || seen < served/64 {
		t.Errorf("%d drops of %d events in the document, %d were told", again, seen, dropped)
	}
	if counted := int(r.All.Served + r.All.Late); served < counted {
		t.Errorf("%d told, at least %d were counted", served, counted)
	}
	if len(s.Models) != len(cfg.Models) || s.Pools[0].GPUs != 64 || len(s.Pools[0].Rows) != 64 {
		t.Errorf("the picture has %d models, pool %+v", len(s.Models), s.Pools[0].Info)
	}
}
