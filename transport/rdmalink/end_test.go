package rdmalink_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// READs that race with the end of their link, with and without a lane: each is
// answered once, whoever answers it.
func TestReadsRaceWithTheEnd(t *testing.T) {
	f := newFake(t, rdmalink.Config{})
	for name, n := range map[string]*rdmalink.Network{"lane": f.net, "TCP": rdmalink.New(rdmalink.Config{TCP: tcp.New()})} {
		t.Run(name, func(t *testing.T) {
			slabs := transporttest.NewSlabs(16, 5000)
			for round := range 30 {
				there, here := &counted{t: t}, &counted{t: t}
				ln, err := n.Listen(local, transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}, Slabs: slabs}, func(wire.Hello) (transport.Handler, error) { return there, nil })
				if err != nil {
					t.Fatal(err)
				}
				slabs.Serve(ln, n)
				l, err := n.Dial(t.Context(), ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, here)
				if err != nil {
					t.Fatal(err)
				}
				var asked, answered atomic.Int64
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						for here.closed.Load() == nil {
							var ops []transport.ReadOp
							for i := range slabs.Count() {
								op := slabs.Op(i)
								op.Done = func(uint64, error) { answered.Add(1) }
								ops = append(ops, op)
							}
							asked.Add(int64(len(ops)))
							_ = l.Read(ops) // refused at last; each is told of it
						}
					})
				}
				time.Sleep(time.Duration(round%7) * time.Millisecond)
				if round%2 == 0 {
					l.Close(nil)
				} else {
					go ln.Close()
				}
				all.Wait()
				finish(t, l, here)
				ln.Close()
				transporttest.Until(t, "every answer", func() bool { return answered.Load() == asked.Load() })
			}
		})
	}
}

// A payload far larger than any box goes over TCP where there is no lane, as it does
// over TCP alone; and so does one whose lane is lost under it.
func TestLargePayloadWithoutLane(t *testing.T) {
	const size = 64 << 20
	j := join(t, rdmalink.Config{Retry: mono.Second * 3600}, nil)
	payload := make([]byte, size)
	for n := uint64(1); n <= 3; n++ {
		for i := range payload {
			payload[i] = byte(n) + byte(i>>8)
		}
		var released atomic.Int64
		send := func() error {
			released.Store(0)
			return j.link.SendPayload((&wire.Output{Request: wire.RequestID(n)}).Append(nil, size), payload, func() { released.Add(1) })
		}
		// A payload beyond the box's limit is taken while the box is empty: a heartbeat may be in it.
		err := send()
		for end := time.Now().Add(10 * time.Second); errors.Is(err, transport.ErrFull) && time.Now().Before(end); err = send() {
			time.Sleep(time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 { // the first begins on the lane
			j.fabric.Partition("a", "b")
		}
		transporttest.Until(t, "the payload", func() bool { return j.there.next.Load() == n+1 && released.Load() == 1 })
	}
	if st := j.net.Stats(); st.LanesLost != 1 {
		t.Errorf("%+v", st)
	}
}
