package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// patience is a limit on liveness, not a measurement.
const patience = 30 * time.Second

// logged is a log that tests read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func logger(l *logged) zerolog.Logger { return zerolog.New(l) }

// count is how many lines have a text.
func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(l.text.String(), "\n") {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens a store that ends with the test.
func open(t *testing.T, cfg Config) (*Store, *logged) {
	t.Helper()
	log := &logged{}
	cfg.Logger = logger(log)
	s, err := Open(limited(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", log.text.String())
		}
	})
	return s, log
}

// until waits until something holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func model(name string) schema.Model {
	return schema.Model{Name: name, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyLatest}, Settings: schema.Settings{SLO: 50 * mono.Millisecond},
		Versions: []schema.ModelVersion{{Version: "1", Source: "file:///models/" + name + "/1", Digest: "sha256:00", Size: 4096, Added: 1}}}
}

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What is written is read as it was written, changed only by those who have seen it, and
// listed in pages in the order of names; whatever its name.
func TestDocuments(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	names := []string{"a", "a/b", "a%2Fb", "ümlaut ✓", "..", strings.Repeat("n", schema.NameMax), "z"}
	for _, n := range names {
		must(t, 0, func() error { _, err := s.Models.Create(ctx, model(n)); return err }())
	}
	for _, n := range names {
		e := must(t, Entry[schema.Model]{}, nil)
		e, err := s.Models.Get(ctx, schema.ID(n))
		if err != nil || e.Value.Name != n || e.Value.Versions[0].Source != "file:///models/"+n+"/1" {
			t.Errorf("%q: %+v, %v", n, e, err)
		}
	}
	var listed []string
	for after, more := "", true; more; {
		var page []Entry[schema.Model]
		var err error
		if page, more, err = s.Models.List(ctx, after, 3); err != nil || len(page) == 0 || len(page) > 3 {
			t.Fatalf("a page of %d, %v", len(page), err)
		}
		for _, e := range page {
			listed = append(listed, e.Value.Name)
			after = e.ID
		}
	}
	if len(listed) != len(names) {
		t.Errorf("listed %q", listed)
	}
	var conflict *ConflictError
	if _, err := s.Models.Create(ctx, model("a")); !errors.As(err, &conflict) || conflict.Had != 0 || conflict.Has == 0 {
		t.Errorf("created twice: %v", err)
	}
	old, _ := s.Models.Get(ctx, "a")
	changed, err := s.Models.Change(ctx, "a", func(m *schema.Model) error { m.Settings.SLO *= 2; return nil })
	if err != nil || changed.Value.Settings.SLO != 100*mono.Millisecond || changed.Revision <= old.Revision {
		t.Errorf("changed to %+v, %v", changed, err)
	}
	if _, err := s.Models.Update(ctx, old.Value, old.Revision); !errors.As(err, &conflict) || conflict.Has != changed.Revision {
		t.Errorf("updated what had changed: %v", err)
	}
	if err := s.Models.Delete(ctx, "a", old.Revision); !errors.As(err, &conflict) {
		t.Errorf("deleted what had changed: %v", err)
	}
	if err := s.Models.Delete(ctx, "a", changed.Revision); err != nil {
		t.Error(err)
	}
	if err := s.Models.Delete(ctx, "a", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := s.Models.Update(ctx, changed.Value, changed.Revision); !errors.As(err, &conflict) || conflict.Has != 0 {
		t.Errorf("updated what is gone: %v", err)
	}
	if _, err := s.Models.Get(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("read what is gone: %v", err)
	}
}

// Many change one document at once, and no change is lost.
func TestChangesAreNotLost(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	must(t, 0, func() error { _, err := s.Models.Create(ctx, model("m")); return err }())
	const writers, each = 4, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for n := 0; n < each; {
				_, err := s.Models.Change(ctx, "m", func(m *schema.Model) error { m.Settings.SLO += mono.Millisecond; return nil })
				var conflict *ConflictError
				if err == nil {
					n++
				} else if !errors.As(err, &conflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if e, err := s.Models.Get(ctx, "m"); err != nil || e.Value.Settings.SLO != 50*mono.Millisecond+writers*each*mono.Millisecond {
		t.Errorf("%+v, %v", e, err)
	}
}

// Documents that no reader could use are refused before they are written, with a reason.
func TestRefused(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	for want, change := range map[string]func(*schema.Model){
		"model":       func(m *schema.Model) { m.Name = "" },
		"characters":  func(m *schema.Model) { m.Name = "a\nb" },
		"desired":     func(m *schema.Model) { m.Desired = "maybe" },
		"policy":      func(m *schema.Model) { m.Policy.Kind = "some" },
		"no source":   func(m *schema.Model) { m.Versions[0].Source = "" },
		"twice":       func(m *schema.Model) { m.Versions = append(m.Versions, m.Versions[0]) },
		"drop policy": func(m *schema.Model) { m.Settings.DropPolicy = "all" },
		"a share of":  func(m *schema.Model) { m.Shares = []schema.Share{{Version: "2", Weight: 1}} },
		"shares of 0": func(m *schema.Model) { m.Shares = []schema.Share{{Version: "1"}} },
		"versions, at most": func(m *schema.Model) {
			for i := range schema.VersionsMax {
				m.Versions = append(m.Versions, schema.ModelVersion{Version: fmt.Sprint("v", i), Source: "file:///x"})
			}
		},
	} {
		m := model("m")
		change(&m)
		if _, err := s.Models.Create(ctx, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	m := model("m")
	for i := range schema.VersionsMax - 1 {
		m.Versions = append(m.Versions, schema.ModelVersion{Version: fmt.Sprint(i, strings.Repeat("v", 200)), Source: strings.Repeat("s", schema.TextMax), Digest: strings.Repeat("d", schema.TextMax)})
	}
	var large *schema.TooLargeError
	if _, err := s.Models.Create(ctx, m); !errors.As(err, &large) || large.Max != schema.Models().BytesMax {
		t.Errorf("%v", err)
	}
	if n, err := s.Models.Count(ctx); n != 0 || err != nil {
		t.Errorf("%d models, %v", n, err)
	}
	small := Table[schema.Model]{s, schema.Kind{Name: "models", BytesMax: 1 << 10, CountMax: 2}}
	for i := range 3 {
		_, err := small.Create(ctx, model(fmt.Sprint(i)))
		var full *FullError
		if (i == 2) != errors.As(err, &full) {
			t.Errorf("the %dth: %v", i, err)
		}
	}
	if err := small.Write(ctx, []schema.Model{model("0"), model("1")}, nil); err != nil {
		t.Errorf("writing those that are there: %v", err)
	}
	var full *FullError
	if err := small.Write(ctx, []schema.Model{model("0"), model("2")}, nil); !errors.As(err, &full) {
		t.Errorf("writing one too many: %v", err)
	}
}

// A data folder keeps all over a restart; two processes do not share one; and nothing is
// left of an ephemeral one.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(limited(t), Config{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	first := must(t, int64(0), nil)
	if first, err = s.Models.Create(limited(t), model("m")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(limited(t), Config{Data: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Models.Get(limited(t), "m"); !errors.Is(err, ErrClosed) {
		t.Errorf("read after the end: %v", err)
	}
	again, _ := open(t, Config{Data: dir})
	if e, err := again.Models.Get(limited(t), "m"); err != nil || e.Revision != first || e.Value.Name != "m" {
		t.Errorf("after a restart: %+v, %v", e, err)
	}
	brief, err := Open(limited(t), Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	place := brief.embedded.folder.path
	if err := brief.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(place), filepath.Base(place)+"*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A process that is killed in the middle of writing loses nothing that it was told is
// written; the next one leads at once.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	kill := child(t, childWriter+"="+dir)
	written := func() int { all, _ := filepath.Glob(filepath.Join(dir, "written-*")); return len(all) }
	until(t, "some are written", func() bool { return written() > 50 })
	kill()
	s, _ := open(t, Config{Data: filepath.Join(dir, "data")})
	all, _, err := s.Models.All(limited(t))
	if n := written(); err != nil || len(all) < n || len(all) > n+1 {
		t.Errorf("%d models of %d, %v", len(all), n, err)
	}
	if lead := <-campaign(t, s, "next"); lead == nil {
		t.Error("nobody leads")
	}
}
