package standby_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/wire"
)

// told is what a backend did, in a few words.
func told(out *standby.Effects) string {
	var words []string
	for _, e := range *out {
		if e.Kind == standby.Fence {
			words = append(words, fmt.Sprintf("fence for %d", e.Link))
			continue
		}
		word := fmt.Sprintf("%d: %d of %d", e.Link, e.Promised.Epoch, e.Promised.Highest)
		if e.Promised.Lost {
			word += " lost"
		}
		words = append(words, word)
	}
	*out = (*out)[:0]
	return strings.Join(words, ", ")
}

func TestABackendKeepsItsPromise(t *testing.T) {
	var b standby.Backend
	var out standby.Effects
	want := func(what, want string) {
		t.Helper()
		if got := told(&out); got != want {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
	}
	b.Up(1, 101, &out)
	b.Up(2, 102, &out)
	want("it has promised nothing", "1: 0 of 0, 2: 0 of 0")
	b.Promise(1, wire.Promise{Epoch: 10}, &out)
	want("the first", "fence for 1, 1: 10 of 10, 2: 0 of 10")
	b.Promise(2, wire.Promise{Epoch: 9}, &out)
	want("a lower one", "2: 9 of 10")
	b.Promise(2, wire.Promise{Epoch: 10}, &out)
	want("the same of another life", "2: 10 of 11")
	if !b.Obeys(1, 10) || b.Obeys(2, 10) || b.Obeys(1, 9) || b.Obeys(0, 10) {
		t.Error("it obeys others than the first")
	}
	b.Promise(2, wire.Promise{Epoch: 20, Keep: true}, &out)
	want("a higher one", "fence for 2, 2: 20 of 20, 1: 10 of 20")
	if b.Obeys(1, 10) || b.Obeys(1, 20) || !b.Obeys(2, 20) {
		t.Error("it obeys the one that was overtaken")
	}
	b.Down(2, &out)
	want("its scheduler is gone", "1: 0 of 20 lost")
	if b.Obeys(2, 20) || b.Obeyed() != 0 || b.Highest() != 20 {
		t.Error("the promise ended with the link")
	}
	b.Up(3, 103, &out)
	want("a third is told", "3: 0 of 20 lost")
	b.Up(4, 102, &out)
	want("the same life again", "4: 0 of 20 lost")
	b.Promise(4, wire.Promise{Epoch: 20}, &out)
	want("its reign again", "fence for 4, 4: 20 of 20, 1: 0 of 20, 3: 0 of 20")
	// What is under way of an earlier link of its is not heard.
	b.Up(6, 102, &out)
	told(&out)
	b.Promise(4, wire.Promise{Epoch: 30}, &out)
	b.Up(5, 102, &out)
	want("the earlier link", "")
	for _, bad := range []wire.Epoch{0, 1 << 63, ^wire.Epoch(0)} {
		b.Promise(6, wire.Promise{Epoch: bad}, &out)
		if slices.ContainsFunc(out, func(e standby.Effect) bool { return e.Kind == standby.Fence }) || b.Highest() != 20 {
			t.Errorf("it promised %d", bad)
		}
		out = out[:0]
	}
}

func TestAFrontendFollowsTheHighestReign(t *testing.T) {
	f := standby.NewFrontend(3)
	want := func(what string, again, wantAgain bool, want int) {
		t.Helper()
		if i, _, ok := f.Leader(); again != wantAgain || ok != (want >= 0) || i != want {
			t.Fatalf("%s: again %v, leader %d, %v", what, again, i, ok)
		}
	}
	want("up", f.Up(0, 1), false, -1)
	want("a spare", f.Lead(0, 1, wire.Lead{Epoch: 10}), false, -1)
	want("it leads", f.Lead(0, 1, wire.Lead{Epoch: 10, Leads: true}), true, 0)
	want("it says so again", f.Lead(0, 1, wire.Lead{Epoch: 10, Leads: true}), false, 0)
	f.Up(1, 2)
	want("a lower one", f.Lead(1, 2, wire.Lead{Epoch: 9, Leads: true}), false, 0)
	want("a higher one", f.Lead(1, 2, wire.Lead{Epoch: 11, Leads: true}), true, 1)
	if !f.Follows(1, 2) || f.Follows(0, 1) || f.Follows(1, 1) {
		t.Error("whose answers count is wrong")
	}
	want("its link ends", f.Down(1, 2), true, 0)
	f.Up(1, 3)
	want("a message of the link before", f.Lead(1, 2, wire.Lead{Epoch: 11, Leads: true}), false, 0)
	want("the same reign over a new link", f.Lead(1, 3, wire.Lead{Epoch: 11, Leads: true}), true, 1)
	want("the old link's end", f.Down(1, 2), false, 1)
	want("it yields", f.Lead(1, 3, wire.Lead{Epoch: 12}), true, 0)
	want("nobody", f.Down(0, 1), false, -1)
	f.Up(0, 4)
	want("over a new link", f.Lead(0, 4, wire.Lead{Epoch: 12, Leads: true}), true, 0)
	want("with a new reign", f.Lead(0, 4, wire.Lead{Epoch: 13, Leads: true}), true, 0)
}
