package backend

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

// refusing is a scheduler that admits nobody, and counts who asks.
type refusing struct {
	mu    sync.Mutex
	asked []time.Time
}

func (*refusing) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (*refusing) Closed(transport.Link, error)                         {}
func (r *refusing) Receive(l transport.Link, f transport.Frame) {
	if f.Kind != wire.KindDoc {
		return
	}
	r.mu.Lock()
	r.asked = append(r.asked, time.Now())
	r.mu.Unlock()
	transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Error: "the cluster is full"})
}

func (r *refusing) times() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time(nil), r.asked...)
}

// refusalLog is a log that may be written by many.
type refusalLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *refusalLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *refusalLog) of(what string) (n int, all string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = l.all.String()
	for _, line := range strings.Split(all, "\n") {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n, all
}

// A backend that the scheduler does not admit says so once, and asks again and again
// without being told off for a broken protocol.
func TestRefusedBackendIsQuiet(t *testing.T) {
	network, r, log := loopback.New(), &refusing{}, &refusalLog{}
	ln, err := network.Listen("inproc:s", transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}},
		func(wire.Hello) (transport.Handler, error) { return r, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b, err := New(context.Background(), Config{Name: "b", Scheduler: "inproc:s", Network: network, Logger: zerolog.New(log),
		Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 1, Zoo: []repository.Zoo{{CSV: "../examples/zoo/zoo_a100.csv", Models: []string{"VGG16"}, MaxBatch: 4}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for end := time.Now().Add(20 * time.Second); len(r.times()) < 4 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	asked := r.times()
	if len(asked) < 4 {
		t.Fatalf("it asked %d times in 20 s", len(asked))
	}
	if least := asked[3].Sub(asked[0]); least < 700*time.Millisecond {
		t.Errorf("four attempts within %v", least)
	}
	if n, all := log.of("scheduler"); n != 1 || !strings.Contains(all, "the cluster is full") || strings.Contains(all, "broke the protocol") {
		t.Errorf("%d lines of the scheduler in the log, want one with the reason:\n%s", n, all)
	}
}
