package transporttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// limited is a Recorder that takes small documents, and says where a payload was let in.
type limited struct {
	*Recorder
	most int
}

// PayloadMax implements transport.Limiter.
func (h limited) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, h.most)
}

// A payload beyond what the handler takes ends the link with an error that names the
// limit, before there is room for it; one at the limit passes.
func testPayloadLimit(t *testing.T, f Fixture) {
	const most = 100_000
	doc := func(n int) []byte { return (&wire.Doc{Type: wire.DocFrontend}).Append(nil, n) }
	for what, c := range map[string]struct {
		frame func(n int) []byte
		n     int
		says  string
	}{
		"a large document":     {doc, most + 1, "document of 100001 bytes, at most 100000"},
		"a payload on no such": {func(n int) []byte { return (&wire.Output{}).Append(nil, n) }, 1 << 20, "a payload, which it may not have"},
	} {
		rec := NewRecorder()
		s, err := f.Network.Listen(f.Address, options(wire.RoleScheduler, "s"), func(wire.Hello) (transport.Handler, error) { return limited{rec, most}, nil })
		if err != nil {
			t.Fatal(err)
		}
		mine := NewRecorder()
		l, err := f.Network.Dial(t.Context(), s.Address(), options(wire.RoleFrontend, "f"), mine)
		if err != nil {
			t.Fatal(err)
		}
		send := func(frame []byte, n int) {
			if err := l.SendPayload(frame, pattern(n, 3), nil); err != nil {
				t.Error(err)
			}
		}
		send(doc(most), most)
		Until(t, "the document", func() bool { return rec.Count() == 1 })
		send(c.frame(c.n), c.n)
		if err := rec.AwaitClosed(t); !errors.Is(err, transport.ErrProtocol) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: ended with %v", what, err)
		}
		if rec.Count() != 1 {
			t.Errorf("%s: it was handed on", what)
		}
		mine.AwaitClosed(t)
		s.Close()
	}
}

// onceIn wants a phrase once.
func onceIn(t *testing.T, text, phrase string) {
	t.Helper()
	if n := strings.Count(text, phrase); n != 1 {
		t.Errorf("%q says %q %d times", text, phrase, n)
	}
}
