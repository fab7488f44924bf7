package server

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Of requests that are due at the same instant the batch has the higher priorities first; what gives
// none, as frontends of before do, goes in the middle.
func TestPriority(t *testing.T) {
	_, n := newServer(t, nil)
	b := backendPeer(t, n, "b", 1, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	priorities := []wire.Priority{129, 0, 255, 1, 127}
	for round := range wire.RequestID(20) { // until all were there before their batch began
		deadline := mono.Now().Add(mono.Second)
		for i, p := range priorities {
			m := wire.Submit{Request: 10*round + wire.RequestID(i), Model: 0, Arrival: mono.Now(), Deadline: deadline, Priority: p}
			if err := f.link.Send(m.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		var got []wire.RequestID
		b.wait("all of a round", func() bool {
			ended := true
			for _, k := range b.batches {
				if len(k.Items) == len(priorities) {
					got = nil
					for _, it := range k.Items {
						got = append(got, it.Request%10)
					}
				}
			}
			for i := range priorities {
				id := 10*round + wire.RequestID(i)
				f.mu.Lock()
				ended = ended && len(b.answers[id])+len(f.answers[id]) > 0
				f.mu.Unlock()
			}
			return ended
		})
		if got != nil {
			if want := []wire.RequestID{3, 4, 1, 0, 2}; !slices.Equal(got, want) {
				t.Errorf("the batch has %v, want %v", got, want)
			}
			return
		}
	}
	t.Fatal("no batch had all of a round")
}
