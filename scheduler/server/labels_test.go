package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

// labelledBackend is a backend with model "m" and its labels, which it does not tell before
// answer. id is their digest.
func labelledBackend(t *testing.T, n *loopback.Network, name string) (p *peer, id catalog.Digest) {
	t.Helper()
	m := spec("m")
	m.Labels = []string{"cat", "dog"}
	labels, id, err := catalog.EncodeLabels(m.Labels)
	if err != nil {
		t.Fatal(err)
	}
	p = dial(t, n, wire.RoleBackend, name)
	p.mu.Lock()
	p.silent, p.lists[id] = true, labels
	p.mu.Unlock()
	p.introduce(catalog.BackendInfo{Name: name, Instance: uint64(len(name)) + uint64(name[0]), Configured: 1}, "emulated", 1, []catalog.ModelSpec{m})
	p.wait("admission", func() bool { return p.admitted != nil })
	return p, id
}

// answer tells labels.
func (p *peer) answer(id catalog.Digest) {
	p.mu.Lock()
	b := p.lists[id]
	p.mu.Unlock()
	_ = p.link.SendPayload((&wire.Doc{Type: wire.DocLabels}).Append(nil, len(b)), b, nil)
}

func (p *peer) ask(id catalog.Digest) {
	transport.SendDoc(p.link, wire.DocWant, catalog.Want{Labels: id})
}

// waiting are the frontends that wait for labels.
func (s *Server) waiting(id catalog.Digest) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.labels.asked[id].waiting)
}

// The catalogue has the labels' digest, and one question to one backend serves all
// frontends: those that wait for it, however often they ask, and those that come later.
func TestLabelsAreRelayed(t *testing.T) {
	s, n := newServer(t, nil)
	b, id := labelledBackend(t, n, "b")
	var all []*peer
	for range 10 {
		f := frontendPeer(t, n)
		f.wait("the model", func() bool { return f.entry("m").Spec.LabelsID == id })
		f.ask(id)
		f.ask(id)
		all = append(all, f)
	}
	b.wait("all wait", func() bool { return s.waiting(id) == len(all) })
	b.answer(id)
	for _, f := range append(all, frontendPeer(t, n)) {
		f.ask(id)
		f.wait("the labels", func() bool { return string(f.lists[id]) == `["cat","dog"]` })
	}
	b.wait("the question", func() bool { return len(b.wants) > 0 })
	if len(b.wants) != 1 || s.waiting(id) != 0 {
		t.Errorf("the backend was asked for %v, want once for %s; %d wait still", b.wants, id, s.waiting(id))
	}
}

// When the backend that was asked leaves, the next question goes to another that has them.
func TestLabelsHolderLeaves(t *testing.T) {
	s, n := newServer(t, nil)
	a, id := labelledBackend(t, n, "a")
	b, _ := labelledBackend(t, n, "b")
	f := frontendPeer(t, n)
	f.ask(id)
	f.wait("one of both is asked", func() bool { return s.waiting(id) == 1 })
	s.mu.Lock()
	first := s.backends[s.labels.asked[id].of]
	s.mu.Unlock()
	asked, other := a, b
	if first.name == "b" {
		asked, other = b, a
	}
	asked.wait("the question", func() bool { return len(asked.wants) == 1 })
	asked.link.Close(nil)
	f.wait("it has left", func() bool { return f.entry("m").GPUs == 1 })
	other.wait("no question yet", func() bool { return len(other.wants) == 0 })
	f.ask(id)
	other.wait("the question", func() bool { return len(other.wants) == 1 })
	other.answer(id)
	f.wait("the labels", func() bool { return f.lists[id] != nil })
}

// What nobody has is not answered, and costs nobody the link; labels that were not asked
// for end the backend's.
func TestLabelsOfNobody(t *testing.T) {
	s, n := newServer(t, nil)
	b, id := labelledBackend(t, n, "b")
	f := frontendPeer(t, n)
	for _, unknown := range []catalog.Digest{"", "no digest", catalog.DigestOf(nil)} {
		f.ask(unknown)
	}
	f.ask(id)
	b.wait("the question that can be answered", func() bool { return slices.Equal(b.wants, []catalog.Digest{id}) })
	s.mu.Lock()
	open := len(s.labels.asked)
	s.mu.Unlock()
	f.mu.Lock()
	if f.closed != nil || open != 1 {
		t.Errorf("closed: %v; %d questions are open, want one", f.closed, open)
	}
	f.mu.Unlock()
	b.answer(id)
	f.wait("the labels", func() bool { return f.lists[id] != nil })
	b.answer(id)
	b.wait("its end", func() bool { return b.closed != nil })
	if !strings.Contains(b.admitted.Error, "not asked for") {
		t.Errorf("%q", b.admitted.Error)
	}
}

// Labels that are kept take no more than labelsKept.
func TestLabelsKeptAreBounded(t *testing.T) {
	s, _ := newServer(t, nil)
	b := &backend{server: s, conn: members.Conn(1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range 10 {
		doc := []byte(strings.Repeat(string(rune('a'+i)), labelsKept/3))
		d := catalog.DigestOf(doc)
		s.labels.asked[d] = question{of: b.conn}
		if err := s.gotLabels(b, doc); err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, k := range s.labels.kept {
			held += len(k)
		}
		if held > labelsKept || held != s.labels.bytes || s.labels.kept[d] == nil {
			t.Fatalf("%d bytes are kept, counted as %d", held, s.labels.bytes)
		}
	}
	if len(s.labels.asked) != 0 {
		t.Errorf("%d questions are open", len(s.labels.asked))
	}
}
