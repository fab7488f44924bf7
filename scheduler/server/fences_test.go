package server

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model loop stands still while a model that it has grants for moves away and is unloaded: the
// backend is told to unload when the loop has gone on, so no batch comes to a device that has not
// its model (host.look). Other backends are told what they shall have at once.
func TestUnloadWaitsForTheLoop(t *testing.T) {
	gate, stood := make(chan struct{}), make(chan struct{}, 1)
	stop := make(chan wire.ModelID, 1)
	_, n := newServer(t, func(c *Config) {
		c.ModelLoops = 1
		c.Watch.Dispatched = func(d *shard.Dispatch) {
			select {
			case id := <-stop:
				if id == d.Model {
					stood <- struct{}{}
					<-gate
				} else {
					stop <- id
				}
			default:
			}
		}
	})
	c, a, _ := begin(t, n)
	c.must(load("a/emulated/0", "o"))
	c.must(routeTo("A", "o"))
	c.must(load("b/emulated/0", "o"))
	f := frontendPeer(t, n)
	f.wait("all", func() bool { return f.entry("m").Ready && f.entry("o").Ready })
	f.runs("o", a)
	stop <- f.entryNow("m").ID
	for next, standing := wire.RequestID(1<<20), false; !standing; next += 2 {
		f.submit(next, f.entryNow("m").ID, mono.Second)
		f.submit(next+1, f.entryNow("o").ID, mono.Second)
		select {
		case <-stood:
			standing = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	c.must(routeTo("B", "o"))
	unload := c.order(catalog.Order{Kind: catalog.OrderUnload, GPU: "a/emulated/0", Keys: []string{"o/1"}})
	behind := c.order(load("a/emulated/0", "p")) // in its turn
	c.must(load("b/emulated/0", "q"))
	time.Sleep(3 * tickEvery)
	a.mu.Lock()
	if !a.has[0]["o/1"] || a.has[0]["p/1"] {
		t.Errorf("the loop that has grants for o stands still, and the device has %v", a.has[0])
	}
	a.mu.Unlock()
	close(gate)
	for _, id := range []uint64{unload, behind} {
		if why := c.outcome(id); why != "" {
			t.Error(why)
		}
	}
}
