package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// watching is a backend of a repository that the test looks over itself.
type watching struct {
	*stocking
	dir string
	w   *watch
	now time.Time
}

func newWatching(t *testing.T, models map[string]string) *watching {
	t.Helper()
	dir := t.TempDir()
	x := &watching{dir: dir, now: time.Now()}
	for name, text := range models {
		x.write(t, name, text)
	}
	x.stocking = newStocking(t, func(c *Config) { c.Repository = dir })
	x.b.cfg.Watch = true // but nobody runs
	x.w = newWatch(x.b)
	x.admitted(100)
	return x
}

func (x *watching) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(x.dir, name, "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	x.now = x.now.Add(time.Second) // each is seen to be another, whatever the file system's clock
	if err := os.Chtimes(path, x.now, x.now); err != nil {
		t.Fatal(err)
	}
}

// look looks as often as it takes to see that something has settled.
func (x *watching) look() {
	for range 3 {
		x.w.look(x.now)
		x.now = x.now.Add(settled)
	}
}

// A model that comes into the folder is served when it has not changed for a while; settings of
// config.yaml change without loading, others load it again; one that goes is gone.
func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"first": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{7}})
	x.write(t, "m", emulatedModel)
	x.w.look(x.now)
	x.w.look(x.now.Add(settled / 2))
	x.write(t, "m", emulatedModel+"load: 1ms\n") // it is still being written
	x.w.look(x.now.Add(settled))
	if n := x.b.pools[0].stock.has(); n != 1 {
		t.Fatalf("%d models", n)
	}
	x.now = x.now.Add(2 * settled)
	x.look()
	got := x.until("m/1", catalog.StateReady, 0, 1)
	if !got.Local || got.Spec.SLO != 50*mono.Millisecond {
		t.Errorf("told %+v", got)
	}
	x.bindTo(map[string]wire.ModelID{"m/1": 8})

	entry := func() *entry {
		s := x.b.pools[0].stock
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.entries["m/1"]
	}
	exec := entry().exec
	settings := strings.NewReplacer("slo: 50ms", "slo: 70ms", "max_batch: 8", "max_batch: 4\ndrop_policy: head").Replace(emulatedModel + "load: 1ms\n")
	x.write(t, "m", settings)
	x.look()
	x.wait("the settings", func() bool {
		s := x.last("m/1").Spec
		return s != nil && s.SLO == 70*mono.Millisecond && s.MaxBatch == 4 && s.DropPolicy == "head"
	})
	if entry().exec != exec {
		t.Error("it was loaded again for a setting")
	}
	for d := range 2 {
		if done := x.orderOn(d, 100, wire.BatchID(10+d), 8); done.Reason != wire.ReasonNone {
			t.Errorf("report %+v", done)
		}
	}
	x.write(t, "m", strings.Replace(settings, "alpha_ms: 0.1", "alpha_ms: 0.2", 1))
	x.look()
	x.wait("the new profile", func() bool {
		l := x.last("m/1")
		return l.State == catalog.StateReady && l.Spec != nil && l.Spec.Profile.Alpha == 200*mono.Microsecond
	})
	if err := os.RemoveAll(filepath.Join(x.dir, "m")); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.until("m/1", catalog.StateGone)
	if done := x.orderOn(0, 100, 30, 7); done.Reason != wire.ReasonNone {
		t.Errorf("the other one: %+v", done)
	}
}

// Mistakes are said once and take nothing with them, and so is a folder that is away.
func TestWatchMistakes(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{8}})
	x.write(t, "m", emulatedModel+"nonsense: 1\n")
	x.look()
	x.look()
	if n := len(x.log.about("not served as it is now", "nonsense")); n != 1 {
		t.Errorf("a mistake is told %d times", n)
	}
	if done := x.orderOn(0, 100, 20, 8); done.Reason != wire.ReasonNone {
		t.Errorf("with a mistake in its file: %+v", done)
	}
	if err := os.Rename(x.dir, x.dir+".away"); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.look()
	if n := len(x.log.about("cannot be read")); n != 1 || x.b.pools[0].stock.has() != 1 {
		t.Errorf("a folder that is away is told %d times, %d models are left", n, x.b.pools[0].stock.has())
	}
	if err := os.Rename(x.dir+".away", x.dir); err != nil {
		t.Fatal(err)
	}
}

// A model whose folder goes still runs what is on its way: the scheduler is told first.
func TestWatchLetsGo(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{8}})
	x.b.pools[0].stock.grace = 2 * time.Second // nothing leaves yet
	if err := os.RemoveAll(filepath.Join(x.dir, "m")); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.until("m/1", catalog.StateLoading)
	for d := range 2 {
		if done := x.orderOn(d, 100, wire.BatchID(10+d), 8); done.Reason != wire.ReasonNone {
			t.Errorf("on its way: %+v", done)
		}
	}
	x.until("m/1", catalog.StateGone)
}

// A model of the own folder that is ordered, too, stays if it is the same one; another one under
// its name takes its place, and the folder has no say in it any more.
func TestOwnAndOrdered(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	same := source(t, "m", "1", "")
	same.Digest = catalog.DigestOf([]byte(emulatedModel))
	x.keep(catalog.Keep{Device: 1, Load: []catalog.Source{same}})
	if got := x.until("m/1", catalog.StateReady, 0, 1); !got.Local {
		t.Errorf("told %+v", got)
	}
	other := source(t, "m", "1", "memory: {static: 5MiB}\n")
	other.Digest = catalog.DigestOf([]byte(emulatedModel + "memory: {static: 5MiB}\n"))
	x.keep(catalog.Keep{Device: 1, Load: []catalog.Source{other}})
	x.wait("the ordered one", func() bool {
		got := x.last("m/1")
		return got.State == catalog.StateReady && got.Static == 5<<20 && !got.Local && len(got.Devices) == 2
	})
	if err := os.RemoveAll(filepath.Join(x.dir, "m")); err != nil {
		t.Fatal(err)
	}
	x.look()
	if x.b.pools[0].stock.has() != 1 {
		t.Error("the folder took an ordered model with it")
	}
}

// A model that was refused at the start is served when it is mended, and a backend of an empty
// repository joins.
func TestWatchMends(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"bad": strings.Replace(emulatedModel, "platform: emulated", "platform: onnxruntime", 1)})
	defer x.end()
	if x.b.pools[0].stock.has() != 0 {
		t.Error("it serves what it cannot read")
	}
	x.write(t, "bad", emulatedModel)
	x.look()
	x.until("bad/1", catalog.StateReady, 0, 1)
}

// The goroutine that looks does what the test of look does by hand.
func TestWatchRuns(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	s := newStocking(t, func(c *Config) { c.Repository, c.Watch, c.Shelf = dir, true, nil })
	defer s.end()
	s.admitted(100)
	if err := os.MkdirAll(filepath.Join(dir, "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "m", "config.yaml"), []byte(emulatedModel), 0o644); err != nil {
		t.Fatal(err)
	}
	s.until("m/1", catalog.StateReady, 0, 1)
	if err := os.RemoveAll(filepath.Join(dir, "m")); err != nil {
		t.Fatal(err)
	}
	s.until("m/1", catalog.StateGone)
}

// What a repository's folder looks like differs by what a reader would see, by version.
func TestPrints(t *testing.T) {
	dir := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	print := func() repository.Print {
		t.Helper()
		all, err := repository.Prints(dir)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all["m"]
	}
	put("m/config.yaml", "a")
	put("m/1/model.onnx", "a")
	put("m/2/model.onnx", "a")
	put(".hidden/config.yaml", "a")
	put("file", "a")
	first := print()
	if !print().Equal(first) {
		t.Error("nothing has changed")
	}
	put("m/profiles/cpu-v1.json", "{}") // ours
	if !print().Equal(first) {
		t.Error("a profile is no change of the model")
	}
	put("m/2/model.onnx", "bb")
	if p := print(); p.Equal(first) || p.Versions["1"] != first.Versions["1"] || p.Versions["2"] == first.Versions["2"] || p.Config != first.Config {
		t.Errorf("%+v, was %+v", p, first)
	}
	if err := os.RemoveAll(filepath.Join(dir, "m", "2")); err != nil {
		t.Fatal(err)
	}
	if print().Equal(first) {
		t.Error("a version is gone")
	}
}

// The log names a folder that cannot be read any more once; what is served goes on, and no other version is listed.
func TestWatchUnreadableFolder(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{8}})
	at, aside := filepath.Join(x.dir, "m"), filepath.Join(t.TempDir(), "m")
	if err := os.Rename(at, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", at); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.look()
	x.wait("the reason", func() bool { return strings.Contains(x.last("m/1").Outdated, "nowhere") })
	if n := len(x.log.about("not served as it is now", "nowhere")); n != 1 {
		t.Errorf("it is told %d times", n)
	}
	if done := x.orderOn(0, 100, 20, 8); done.Reason != wire.ReasonNone {
		t.Errorf("%+v", done)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, at); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.wait("it is back", func() bool { l := x.last("m/1"); return l.State == catalog.StateReady && l.Outdated == "" })
}

// A model that goes takes all of its metrics with it.
func TestMetricsGoWithTheModel(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"first": emulatedModel})
	defer x.end()
	x.write(t, "m", emulatedModel)
	x.look()
	x.until("m/1", catalog.StateReady, 0, 1)
	x.b.metrics.lost.WithLabelValues("e", "m", "link").Inc()
	for _, c := range x.b.metrics.parted.all() {
		c.WithLabelValues("e", "m").Inc()
	}
	if err := os.RemoveAll(filepath.Join(x.dir, "m")); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.until("m/1", catalog.StateGone)
	all, err := x.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "model" && l.GetValue() == "m" {
					t.Errorf("%s is left", f.GetName())
				}
			}
		}
	}
}
