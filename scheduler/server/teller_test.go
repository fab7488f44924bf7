package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// largeModels are models whose description takes some KB each.
func largeModels(n int) []catalog.ModelSpec {
	var inputs []catalog.TensorSpec
	for i := range 32 {
		inputs = append(inputs, catalog.TensorSpec{Name: strings.Repeat("x", 120) + fmt.Sprint(i), Type: catalog.FP32, Shape: []int64{4}})
	}
	all := make([]catalog.ModelSpec, n)
	for i := range all {
		all[i] = spec(fmt.Sprint("m", i))
		all[i].Inputs = inputs
	}
	return all
}

// A catalogue that is larger than a link's buffer does not cut the link of a frontend that
// reads slowly: it gets what fits, and the rest later. Others do not wait for it.
func TestSlowFrontendGetsTheRestLater(t *testing.T) {
	const models = 2 * tellModels // two documents of 3 MB, on a link that holds 4 MiB
	s, n := newServer(t, nil)
	b := dial(t, n, wire.RoleBackend, "b")
	b.introduce(catalog.BackendInfo{Name: "b", Instance: 1, Configured: 1}, "emulated", 1, largeModels(models))
	b.wait("admission", func() bool { return b.admitted != nil })
	if b.admitted.Error != "" {
		t.Fatal(b.admitted.Error)
	}

	slow := newPeer(t)
	slow.gate = make(chan struct{})
	slow.dial(n, wire.RoleFrontend, "slow")
	transport.SendDoc(slow.link, wire.DocFrontend, catalog.FrontendInfo{Name: "slow", Instance: rand.Uint64(), Address: "inproc:slow"})
	state := "no frontend"
	full := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for f := range s.cluster.Frontends {
			at := s.frontends[f.Conn]
			refused := at.link.Stats().SendsFull
			state = fmt.Sprintf("%d refused, behind %v, told %d of %d", refused, at.behind, at.told, s.cluster.Serial())
			return refused >= 2 && at.behind
		}
		state = "no frontend"
		return false
	}
	for end := time.Now().Add(60 * time.Second); !full(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("its link is not full: %s; closed: %v", state, slow.closed)
		}
	}
	close(slow.gate)
	slow.wait("the whole catalogue", func() bool { return len(slow.doc.Entries) == models && slow.entry("m7").Ready })
	if slow.closed != nil || slow.parts < models/tellModels {
		t.Errorf("%d parts, closed: %v", slow.parts, slow.closed)
	}
}

// A frontend that knows all but the last change is told only that, and what changes while
// the teller rests is told together.
func TestTellerTellsChanges(t *testing.T) {
	_, n := newServer(t, nil)
	backendPeer(t, n, "a", 1, "m", "k")
	f := frontendPeer(t, n)
	f.wait("the catalogue", func() bool { return f.entry("m").GPUs == 1 && f.entry("k").GPUs == 1 })
	f.mu.Lock()
	f.doc.Entries, f.parts = nil, 0 // what it is told from now on
	f.mu.Unlock()
	for i := range 20 {
		backendPeer(t, n, fmt.Sprint("b", i), 1, "m", "k")
	}
	f.wait("all of them", func() bool { return f.pools["emulated/"] == 21 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.doc.Entries) != 0 || f.parts > 20 {
		t.Errorf("%d models were told again, %d documents", len(f.doc.Entries), f.parts)
	}
}
