package loopback_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Who asks for a Keeper's first link is told once, whatever becomes of it.
func TestAwaitFirst(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n := loopback.New()
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}}
	keep := func(address string, patience mono.Dur) *transport.Keeper {
		return transport.KeepWith(t.Context(), transport.KeepConfig{Network: n, Address: address, Options: o, Handler: transporttest.NewRecorder(), Patience: patience})
	}
	k := keep("inproc:x", 60*mono.Second)
	told := make(chan transport.Link, 8)
	then := func(l transport.Link) { told <- l }
	heard := func(what string, want bool) {
		t.Helper()
		select {
		case l := <-told:
			if (l != nil) != want {
				t.Errorf("%s: link %v", what, l)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not told", what)
		}
	}
	ask := func(what string, d mono.Dur, want bool) {
		t.Helper()
		k.AwaitFirst(d, then)
		heard(what, want)
	}
	ask("no patience", 0, false)
	ask("little patience", mono.Millisecond, false)

	k.AwaitFirst(60*mono.Second, then)
	s, err := n.Listen("inproc:x", o, func(wire.Hello) (transport.Handler, error) { return transporttest.NewRecorder(), nil })
	if err != nil {
		t.Fatal(err)
	}
	heard("the first link", true)
	ask("it is up", 60*mono.Second, true)

	s.Close()
	transporttest.Until(t, "the link to end", func() bool { return k.Link() == nil })
	ask("it was up", 60*mono.Second, false)
	k.Close()
	ask("ended", 60*mono.Second, false)

	k = keep("inproc:nobody", 60*mono.Second)
	k.AwaitFirst(60*mono.Second, then)
	k.Close()
	heard("closed while it was awaited", false)

	// A peer that cannot be dialled holds nobody up once the Keeper is no longer young.
	k = keep("inproc:nobody", 20*mono.Millisecond)
	ask("never up", 60*mono.Second, false)
	k.AwaitFirst(60*mono.Second, then)
	if len(told) != 1 {
		t.Error("never up, asked again: it waits")
	}
	heard("never up, asked again", false)
	k.Close()
	if len(told) > 0 {
		t.Errorf("%d more calls", len(told))
	}
}
