package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model that is replaced, or whose folder goes, while it is read: nothing of what was read is taken,
// and nothing is said of it. What the folder has become is taken up when it has settled.
func TestWatchChangesWhileRead(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{8}})
	var meanwhile func()
	x.w.load = func(dir, name string) ([]repository.Model, []error, error) {
		models, failed, err := repository.LoadModel(dir, name)
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
			if _, gone := os.Stat(filepath.Join(dir, name)); gone != nil { // it went before it was read, as well
				models, failed, err = repository.LoadModel(dir, name)
			}
		}
		return models, failed, err
	}
	with := func(slo string) string { return strings.Replace(emulatedModel, "slo: 50ms", "slo: "+slo, 1) }
	spec := func() mono.Dur {
		s := x.b.pools[0].stock
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.entries["m/1"].spec.SLO
	}
	x.write(t, "m", with("60ms"))
	meanwhile = func() { x.write(t, "m", with("70ms")) }
	x.look()
	if got := spec(); meanwhile != nil || got != 50*mono.Millisecond {
		t.Errorf("after it was replaced while it was read: SLO %v", got)
	}
	x.look()
	if got := spec(); got != 70*mono.Millisecond {
		t.Errorf("when it has settled: SLO %v", got)
	}
	x.write(t, "m", with("80ms"))
	meanwhile = func() {
		if err := os.RemoveAll(filepath.Join(x.dir, "m")); err != nil {
			t.Error(err)
		}
	}
	x.look()
	x.look()
	x.until("m/1", catalog.StateGone)
	if all := x.log.about("not served"); len(all) > 0 {
		t.Errorf("errors: %v", all)
	}
}

// A folder that is renamed away and back: within a look's time nothing happens; later its model goes,
// and comes as a new one. Both without an error.
func TestWatchAwayAndBack(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel, "other": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{8, 9}})
	m := filepath.Join(x.dir, "m")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(m, m+".away") // which is a model of that name meanwhile
	x.w.look(x.now)
	move(m+".away", m)
	x.look()
	if n := x.b.pools[0].stock.has(); n != 2 || len(x.log.about("gone from the repository")) > 0 {
		t.Errorf("a moment away: %d models", n)
	}
	aside := filepath.Join(t.TempDir(), "m")
	move(m, aside)
	x.look()
	x.until("m/1", catalog.StateGone)
	move(aside, m)
	x.look()
	x.until("m/1", catalog.StateReady, 0, 1)
	if all := x.log.about("not served"); len(all) > 0 {
		t.Errorf("errors: %v", all)
	}
}

// A folder that is new is announced as loading at the first look, before it has settled; one that goes again before that is gone.
func TestNewFoldersAreAnnounced(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"other": emulatedModel})
	defer x.end()
	x.write(t, "m", emulatedModel)
	x.w.look(x.now)
	x.until("m/1", catalog.StateLoading)
	if err := os.RemoveAll(filepath.Join(x.dir, "m")); err != nil {
		t.Fatal(err)
	}
	x.w.look(x.now)
	x.until("m/1", catalog.StateGone)
	x.write(t, "m", emulatedModel)
	x.w.look(x.now)
	x.until("m/1", catalog.StateLoading)
	x.look()
	x.until("m/1", catalog.StateReady, 0, 1)
	x.write(t, "bad", "platform: nonsense\n") // announced, and then listed with its mistake
	x.w.look(x.now)
	x.until("bad/1", catalog.StateLoading)
	x.look()
	x.until("bad/1", catalog.StateFailed)
}
