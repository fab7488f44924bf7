package server

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model that its backend says is resident is loaded onto each device before anybody asks for it, and stays there whatever the others
// need.
func TestResidentModelOfPagedPool(t *testing.T) {
	_, n := newServer(t, nil)
	v := newVault(t, n, 2, 3)
	all := models(10)
	all[4].Resident = true
	v.join(t, "b", nil, all...)
	f := frontendPeer(t, n)
	f.wait("the models", func() bool { return len(f.doc.Entries) == 10 && f.doc.Entries[0].Ready })
	ids := map[string]wire.ModelID{}
	f.wait("their ids", func() bool {
		for i := range all {
			ids[all[i].Name] = f.entry(all[i].Name).ID
		}
		return true
	})
	id := ids["m4"]
	everywhere := func() bool { return v.held[0][id] != 0 && v.held[1][id] != 0 }
	v.wait("its weights", everywhere)
	for i := range 40 {
		f.submit(wire.RequestID(i+1), ids[[]string{"m0", "m1", "m2", "m3", "m5", "m6"}[i%6]], 80*mono.Millisecond)
		time.Sleep(3 * time.Millisecond)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	loads := 0
	for _, l := range v.loads {
		if l.Model == id {
			loads++
		}
	}
	if !everywhere() || loads != 2 || len(v.loads) < 6 || v.wrong > 0 {
		t.Errorf("of %d orders %d were of the resident model, want 2; the devices hold %v", len(v.loads), loads, v.held)
	}
}
