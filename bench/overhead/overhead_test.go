package overhead

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const us1 = mono.Microsecond

// Two batches on one GPU, told out of a fixed story: each span is in its stage, what
// is by design is in none.
func TestStagesOfAStory(t *testing.T) {
	var r Recorder
	r.begin(1)
	at := func(us int) mono.Time { return mono.Time(mono.Dur(us) * us1) }
	// Called at 0, handed over at 2, received at 10, due at 1000, dispatched at 1007,
	// at the backend at 1020, inputs there at 1050, the GPU free at 2000 and started at
	// 2003, ended at 3000, output at 3040, done at 3041.
	r.answers.add(answered{id: 1, called: at(0), sent: at(2), answer: at(3040), done: at(3041)})
	r.submits.add(submitted{1, at(10)})
	r.dispatches.add(dispatched{batch: 8, gpu: 3, due: at(1), at: at(2)})
	r.dispatches.add(dispatched{batch: 9, gpu: 3, due: at(1000), at: at(1007)})
	r.members.add(member{1, 9})
	r.reports.add(reported{8, at(3), at(4), at(5), at(2000)})
	r.Reported(&wire.Done{Batch: 9, Fetch: 30 * us1, Ready: at(1150), Start: at(2103), End: at(3100)}, 100*us1)
	// Of this one nobody knows the batch: it is left out.
	r.answers.add(answered{id: 2, called: at(0), sent: at(2), answer: at(5), done: at(6)})
	r.submits.add(submitted{2, at(3)})
	spans := r.join()
	want := [stages]mono.Dur{2 * us1, 8 * us1, 7 * us1, 13 * us1, 30 * us1, 3 * us1, 40 * us1, 1 * us1, 104 * us1}
	for s := range stages {
		if got := spans[s]; len(got) != 1 || got[0] != want[s] {
			t.Errorf("%s: %v, want %v", s.Name(), got, want[s])
		}
	}
}

// Who comes when the order is overdue already was not kept waiting before; and where
// it is not known when the order was due, nothing counts as lateness.
func TestLatenessBeginsWithTheRequest(t *testing.T) {
	a := answered{}
	for _, c := range []struct{ due, received, want mono.Time }{{100, 150, 50}, {100, 50, 100}, {0, 150, 0}} {
		b := batchWay{dispatched: dispatched{due: c.due, at: 200}}
		if got := spansOf(&a, c.received, &b)[Lateness]; got != mono.Dur(c.want) {
			t.Errorf("due %d, received %d: lateness %d, want %d", c.due, c.received, got, c.want)
		}
	}
}

func TestSpreadSaysOnlyWhatSamplesBear(t *testing.T) {
	var spans []mono.Dur
	for i := range 1000 {
		spans = append(spans, mono.Dur(i+1)*us1)
	}
	if s := spread(spans); s != (Spread{Samples: 1000, P50: 501, P99: 990}) {
		t.Errorf("%+v", s)
	}
	if s := spread(nil); s != (Spread{}) {
		t.Errorf("of nothing: %+v", s)
	}
}

// One request in so many is looked at, in every log the same ones.
func TestSampling(t *testing.T) {
	var r Recorder
	r.begin(10)
	var looked []int
	for serial := range 100 {
		id := wire.RequestID(serial<<24 | 5)
		r.Submitted(id)
		r.Member(1, id)
		if r.wants(id) {
			looked = append(looked, serial)
		}
	}
	if n, m := len(r.submits.end()), len(r.members.end()); n != 10 || m != 10 || !slices.Equal(looked[:2], []int{0, 10}) {
		t.Errorf("%d and %d rows, of serials %v", n, m, looked)
	}
	if r.Submitted(10 << 24); len(r.submits.end()) != 0 {
		t.Error("a journal that ended took a row, or kept those that it gave away")
	}
}
