package rdmalink_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// slow blocks until its gate is open.
type slow struct {
	*counted
	gate chan struct{}
}

func (s slow) Receive(l transport.Link, f transport.Frame) {
	<-s.gate
	s.counted.Receive(l, f)
}

// While there is no lane, a peer that does not take what small frames bring fills the
// link, and does not end it.
func TestFullWithoutLane(t *testing.T) {
	f := newFake(t, rdmalink.Config{})
	_, b := f.host(t, "b", rdmalink.Config{})
	f.fabric.Partition("a", "b")
	there, here := slow{&counted{t: t}, make(chan struct{})}, &counted{t: t}
	ln, err := b.Listen(local, transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}}, func(wire.Hello) (transport.Handler, error) { return there, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l, err := f.net.Dial(t.Context(), ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}, SendBuffer: 1 << 20}, here)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, l, here)
	open := sync.OnceFunc(func() { close(there.gate) })
	defer open()
	taken, most := uint64(0), uint64(64<<20/len(numbered(0)))
	for inARow := 0; inARow < 50; {
		switch err := l.Send(numbered(taken)); {
		case err == nil:
			taken, inARow = taken+1, 0
			if taken > most {
				t.Fatal("64 MiB were taken and nobody read them")
			}
		case errors.Is(err, transport.ErrFull):
			inARow++
			time.Sleep(2 * time.Millisecond)
		default:
			t.Fatalf("after %d frames: %v", taken, err)
		}
	}
	open()
	transporttest.Until(t, "what was taken", func() bool { return there.next.Load() == taken })
	if st := f.net.Stats(); st.LinksTCP != 1 || st.Sends != 0 {
		t.Errorf("went another way: %+v", st)
	}
}

func numbered(n uint64) []byte { return (&wire.Answer{Request: wire.RequestID(n)}).Append(nil) }
