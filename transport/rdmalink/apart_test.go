package rdmalink_test

import (
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// While a document is handled, however long that takes, the other lanes of the
// process go on, and what comes behind the document waits its turn.
func TestDocumentsHoldUpNobody(t *testing.T) {
	f := newFake(t, rdmalink.Config{})
	open := make(chan struct{})
	slow, quick := transporttest.NewRecorder(), transporttest.NewRecorder()
	slow.OnReceive(func(_ transport.Link, f transport.Frame) {
		if f.Kind == wire.KindDoc {
			<-open
		}
	})
	accepted := []transport.Handler{slow, quick}
	ln, err := f.net.Listen(local, transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}}, func(wire.Hello) (transport.Handler, error) {
		h := accepted[0]
		accepted = accepted[1:]
		return h, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var links []transport.Link
	for range 2 {
		h := &counted{t: t}
		l, err := f.net.Dial(t.Context(), ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, h)
		if err != nil {
			t.Fatal(err)
		}
		defer finish(t, l, h)
		links = append(links, l)
	}
	document := make([]byte, 20<<10) // several messages
	if err := links[0].SendPayload((&wire.Doc{Type: wire.DocBackend}).Append(nil, len(document)), document, nil); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(100) {
		send(t, links[0], n)
		send(t, links[1], n)
	}
	transporttest.Until(t, "the other link's frames", func() bool { return quick.Count() == 100 })
	if n := slow.Count(); n != 0 {
		t.Errorf("%d frames passed the document", n)
	}
	close(open)
	transporttest.Until(t, "what came behind", func() bool { return slow.Count() == 101 })
	for i, got := range slow.Frames() {
		if want := wire.KindAnswer; i > 0 && got.Kind != want {
			t.Errorf("frame %d is of kind %d", i, got.Kind)
		}
	}
	if st := f.net.Stats(); st.Sends < 20 {
		t.Errorf("not over lanes: %+v", st)
	}
}
