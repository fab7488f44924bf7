package netbench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
)

// Small, so that the tests are quick: what they look at is not speed.
const (
	testServers = 3
	testObjects = 4
	testSize    = 10_001 // not whole words
)

// host is one host's ways: RDMA in software, and TCP.
func host(t *testing.T, f *fakeverbs.Fabric, name string) ([]Way, *rdmalink.Network) {
	t.Helper()
	nic, err := rdma.Open(f.Host(name), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	n := rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic, Require: true})
	t.Cleanup(func() {
		if err := errors.Join(n.Close(), nic.Close()); err != nil {
			t.Error(err)
		}
	})
	return []Way{{RDMA, n}, {TCP, tcp.New()}}, n
}

// serving starts servers; through JSON, as between processes.
func serving(t *testing.T, ways func(i int) []Way) ([]*Server, []Offer) {
	t.Helper()
	var servers []*Server
	var offers []Offer
	for i := range testServers {
		s, err := Serve(ServeConfig{Index: i, Objects: testObjects, Size: testSize, Listen: "tcp:127.0.0.1:0"}, ways(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		text, err := json.Marshal(s.Offer())
		if err != nil {
			t.Fatal(err)
		}
		var o Offer
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		servers, offers = append(servers, s), append(offers, o)
	}
	return servers, offers
}

func tcpAlone(int) []Way { return []Way{{TCP, tcp.New()}} }

// quick is a Config of few rounds.
func quick() Config {
	return Config{Duration: 50 * mono.Millisecond, Rounds: 20, Echoes: 10 * mono.Millisecond}
}

// Both ways, side by side: each measures the same, and RDMA's READs went by RDMA.
func TestMeasureBothWays(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	ways, network := host(t, f, "client")
	_, offers := serving(t, func(i int) []Way {
		w, _ := host(t, f, "server"+string(rune('a'+i)))
		return w
	})
	c := quick()
	phases := map[string]bool{}
	c.Progress = func(p Progress) { phases[p.Phase] = true }
	c.Servers = func() (mono.Dur, error) { return 0, nil }
	r, err := Measure(t.Context(), c, ways, offers)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Ways) != 2 || r.Ways[0].Name != RDMA || r.Ways[1].Name != TCP || r.Interrupted {
		t.Fatalf("ways %+v", r.Ways)
	}
	for _, w := range r.Ways {
		reads := int64(c.Rounds * testServers * testObjects)
		if w.Incast.Round.Samples != int64(c.Rounds) || w.Incast.Read.Samples != reads || w.Incast.Bytes != reads*testSize || w.Alone.Samples == 0 {
			t.Errorf("%s: %d rounds, %d READs, %d bytes, %d alone", w.Name, w.Incast.Round.Samples, w.Incast.Read.Samples, w.Incast.Bytes, w.Alone.Samples)
		}
		if len(w.Echo) != len(echoShapes()) || len(w.Flood) != len(floodSizes()) {
			t.Errorf("%s: %d shapes of messages, %d floods", w.Name, len(w.Echo), len(w.Flood))
		}
	}
	if s := network.Stats(); s.LanesUp != testServers || s.ReadsTCP != 0 || s.ReadsRDMA < uint64(r.Ways[0].Incast.Read.Samples) || s.HeapBuffers != 0 || s.Writes == 0 {
		t.Errorf("RDMA's network: %+v", s)
	}
	if len(phases) != 3+len(echoShapes())+len(floodSizes()) {
		t.Errorf("phases told: %v", phases)
	}
	if want := (Setting{Servers: testServers, Objects: testObjects, Size: testSize, Rounds: c.Rounds}); r.Config != want {
		t.Errorf("setting %+v, want %+v", r.Config, want)
	}
}

// Ctrl-C: what was measured stays, the rest is left out; nothing is an error.
func TestMeasureInterrupted(t *testing.T) {
	_, offers := serving(t, tcpAlone)
	ctx, cancel := context.WithCancel(t.Context())
	c := quick()
	c.Progress = func(p Progress) {
		if p.Phase == "incast" {
			cancel()
		}
	}
	r, err := Measure(ctx, c, tcpAlone(0), offers)
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Ways[0]; !r.Interrupted || w.Incast.Round.Samples == 0 || len(w.Echo) != 0 || len(w.Flood) != 0 {
		t.Errorf("result %+v", r)
	}
	var out strings.Builder
	if r.Print(&out); !strings.HasPrefix(out.String(), "INTERRUPTED") {
		t.Errorf("printed:\n%s", out.String())
	}
	if _, ok := r.Latency(""); ok {
		t.Error("a picture of messages that were not measured")
	}

	c.Progress = func(Progress) {}
	ctx, cancel = context.WithCancel(t.Context())
	c.Progress = func(Progress) { cancel() }
	if _, err := Measure(ctx, c, tcpAlone(0), offers); !errors.Is(err, ErrNothing) {
		t.Errorf("interrupted in the warm-up: %v, want %v", err, ErrNothing)
	}
}

// A server that goes away ends the run, with its way and what happened.
func TestMeasureServerGone(t *testing.T) {
	servers, offers := serving(t, tcpAlone)
	c := quick()
	c.Progress = func(p Progress) {
		if p.Phase == "incast" {
			if err := servers[0].Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Measure(t.Context(), c, tcpAlone(0), offers); !errors.Is(err, transport.ErrClosed) || !strings.HasPrefix(err.Error(), "TCP: ") {
		t.Errorf("error %v", err)
	}
}

// A way that a server does not offer is an error, not a hole in the table.
func TestMeasureWayNotOffered(t *testing.T) {
	_, offers := serving(t, tcpAlone)
	if _, err := Measure(t.Context(), quick(), []Way{{RDMA, tcp.New()}}, offers); err == nil || !strings.Contains(err.Error(), "RDMA to server 0") {
		t.Errorf("error %v", err)
	}
}

// idle is a Network whose READs are done at once and bring nothing.
type idle struct{ transport.Network }

type idleLink struct{ transport.Link }

func (n idle) Dial(ctx context.Context, address string, o transport.Options, h transport.Handler) (transport.Link, error) {
	l, err := n.Network.Dial(ctx, address, o, h)
	return idleLink{l}, err
}

func (idleLink) Read(ops []transport.ReadOp) error {
	for _, op := range ops {
		op.Done(op.Token, nil)
	}
	return nil
}

// READs that bring nothing, or not what the object holds, cannot pass.
func TestMeasureWrongBytes(t *testing.T) {
	servers, offers := serving(t, tcpAlone)
	if _, err := Measure(t.Context(), quick(), []Way{{TCP, idle{tcp.New()}}}, offers); !errors.Is(err, ErrWrongBytes) {
		t.Errorf("nothing was brought: %v", err)
	}
	input := servers[1].offer.Ways[0].Objects[2]
	data, err := servers[1].arenas[0].Pin(input.Input, input.Request)
	if err != nil {
		t.Fatal(err)
	}
	data[5000] ^= 1
	servers[1].arenas[0].Unpin(input.Input)
	if _, err := Measure(t.Context(), quick(), tcpAlone(0), offers); !errors.Is(err, ErrWrongBytes) || !strings.Contains(err.Error(), "object 6, from byte 5000 of 10001") {
		t.Errorf("one bit is wrong: %v", err)
	}
}

// An address that is not there and a link that is refused are said with the server.
func TestMeasureUnreachable(t *testing.T) {
	servers, offers := serving(t, tcpAlone)
	if err := servers[2].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), quick(), tcpAlone(0), offers); !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), "TCP to server 2") {
		t.Errorf("error %v", err)
	}
}
