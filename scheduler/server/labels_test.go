package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
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
	if q := s.labels.asked[id]; q != nil {
		return len(q.waiting)
	}
	return 0
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
	first := s.backends[s.labels.asked[id].of] // whichever it is
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
	plain := dial(t, n, wire.RoleBackend, "plain") // a model without labels has none of the digest ""
	plain.introduce(catalog.BackendInfo{Name: "plain", Instance: 9, Configured: 1}, "other", 1, []catalog.ModelSpec{spec("plain")})
	plain.wait("admission", func() bool { return plain.admitted != nil && plain.admitted.Error == "" })
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
		s.labels.asked[d], b.asked = &question{of: b.conn}, map[catalog.Digest]int{d: 1}
		if err := s.gotLabels(b, d, doc); err != nil {
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

// A backend that does not answer is asked again after a while, not before; its answers may come
// late, and one more than it was asked for is too many.
func TestLabelsAskedAgain(t *testing.T) {
	s, n := newServer(t, nil)
	b, id := labelledBackend(t, n, "b")
	f := frontendPeer(t, n)
	f.ask(id)
	b.wait("the question", func() bool { return len(b.wants) == 1 })
	s.mu.Lock()
	of := s.frontend(f.admitted.Frontend)
	first := s.labels.asked[id].at
	s.wantLabels(first.Add(labelsAgain-1), of, id)
	early := s.labels.asked[id].at
	s.wantLabels(first.Add(labelsAgain), of, id)
	q := s.labels.asked[id]
	if early != first || q.at != first.Add(labelsAgain) || len(q.waiting) != 1 {
		t.Errorf("asked at %v, %v and %v; %d wait", first, early, q.at, len(q.waiting))
	}
	s.mu.Unlock()
	b.wait("the question once more", func() bool { return len(b.wants) == 2 })
	b.answer(id)
	b.answer(id)
	f.wait("the labels", func() bool { return f.lists[id] != nil })
	b.wait("both answers are there", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.backendOf(t, "b").asked) == 0 })
	b.mu.Lock()
	if b.closed != nil {
		t.Error("a late answer ended the link")
	}
	b.mu.Unlock()
	b.answer(id)
	b.wait("its end", func() bool { return b.closed != nil })
}

// backendOf finds a member. Caller holds mu.
func (s *Server) backendOf(t *testing.T, name string) *backend {
	for _, b := range s.backends {
		if b.name == name {
			return b
		}
	}
	t.Fatalf("there is no backend %s", name)
	return nil
}

// Questions end with those who asked and those who were asked, and with time.
func TestLabelsQuestionsEnd(t *testing.T) {
	s, n := newServer(t, nil)
	b, id := labelledBackend(t, n, "b")
	f, g := frontendPeer(t, n), frontendPeer(t, n)
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.labels.asked)
	}
	f.ask(id)
	g.ask(id)
	b.wait("both wait", func() bool { return s.waiting(id) == 2 })
	f.link.Close(nil)
	b.wait("one waits", func() bool { return s.waiting(id) == 1 })
	g.link.Close(nil)
	b.wait("nobody waits", func() bool { return open() == 0 })
	h := frontendPeer(t, n)
	h.ask(id)
	b.wait("a question", func() bool { return s.waiting(id) == 1 })
	s.mu.Lock()
	at := s.labels.asked[id].at
	s.labels.sweep(at.Add(2*labelsAgain - 1))
	kept := len(s.labels.asked)
	s.labels.sweep(at.Add(2 * labelsAgain))
	if left := len(s.labels.asked); kept != 1 || left != 0 {
		t.Errorf("%d and %d questions are open", kept, left)
	}
	s.mu.Unlock()
	h.ask(id)
	b.wait("another question", func() bool { return s.waiting(id) == 1 })
	b.link.Close(nil)
	h.wait("no question is open", func() bool { return open() == 0 })
}

// fullLink takes no documents.
type fullLink struct {
	transport.Link
	cut bool
}

func (l *fullLink) SendPayload([]byte, []byte, func()) error { return transport.ErrFull }

func (l *fullLink) Close(cause error) {
	l.cut = true
	l.Link.Close(cause)
}

// A question never cuts a link that is full: it is asked again.
func TestLabelsOverAFullLink(t *testing.T) {
	s, n := newServer(t, nil)
	b, id := labelledBackend(t, n, "b")
	f := frontendPeer(t, n)
	s.mu.Lock()
	seen := s.backendOf(t, "b")
	full := &fullLink{Link: seen.link}
	seen.link = full
	s.wantLabels(mono.Now(), s.frontend(f.admitted.Frontend), id)
	seen.link = full.Link
	if full.cut || len(s.labels.asked) != 0 {
		t.Errorf("cut %v; %d questions are open", full.cut, len(s.labels.asked))
	}
	s.mu.Unlock()
	f.ask(id)
	b.wait("the question", func() bool { return len(b.wants) == 1 })
}

// What cannot be read as labels is the backend's fault, and reaches no frontend.
func TestLabelsThatAreNone(t *testing.T) {
	_, n := newServer(t, nil)
	for name, bad := range map[string]string{"number": `7`, "long": `["` + strings.Repeat("x", 5000) + `"]`} {
		b := dial(t, n, wire.RoleBackend, name)
		m, id := spec(name), catalog.DigestOf([]byte(bad))
		m.LabelsID = id
		b.mu.Lock()
		b.lists[id] = []byte(bad)
		b.mu.Unlock()
		b.introduce(catalog.BackendInfo{Name: name, Instance: uint64(len(bad)), Configured: 1}, name, 1, []catalog.ModelSpec{m})
		b.wait("admission", func() bool { return b.admitted != nil })
		f := frontendPeer(t, n)
		f.ask(id)
		b.wait("its end", func() bool { return b.closed != nil && strings.Contains(b.admitted.Error, "labels: ") })
		f.mu.Lock()
		if f.lists[id] != nil || f.closed != nil {
			t.Errorf("%s: the frontend has %q, and its link %v", name, f.lists[id], f.closed)
		}
		f.mu.Unlock()
	}
}
