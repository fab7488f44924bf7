package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// What etcd calls fatal ends neither the process nor serving: the store says that its etcd
// has ended and what to do, and still closes.
func TestFatalIsAway(t *testing.T) {
	t.Parallel()
	s, log := open(t, Config{Ephemeral: true})
	ended := make(chan bool)
	go func() {
		defer close(ended)
		s.embedded.etcd.GetLogger().Fatal("no space left on device")
	}()
	<-ended
	until(t, "it is known to be away", func() bool { st, _ := s.State(); return st.Away })
	if _, err := s.Models.Get(limited(t), "m"); err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), "restart this process") {
		t.Errorf("%v", err)
	}
	if log.count("no space left on device") == 0 {
		t.Error("not logged")
	}
	ended = make(chan bool)
	go func() {
		defer close(ended)
		s.embedded.etcd.GetLogger().Panic("a bug of etcd's")
	}()
	<-ended
}

// Whatever is under way when a store closes ends with it, and nothing of it runs on.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30)) // too long for a socket's path
	s, err := Open(limited(t), Config{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(s.Endpoint(), "unix://")
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", socket, info.Mode(), err)
	}
	lead := <-campaign(t, s, "me")
	watch, writer := s.Models.Watch(t.Context(), 0), s.Observed.Writer(t.Context())
	if err := writer.Put(schema.Observation{Model: "m", Version: "1", State: schema.Idle}); err != nil {
		t.Error(err)
	}
	r, err := s.Register(schema.Backend{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the backend is registered", func() bool { n, err := s.Backends.Count(limited(t)); return err == nil && n == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-lead.Context().Done()
	<-watch.Done()
	if err := r.Update(schema.Backend{Name: "b", Since: 1}); err == nil {
		t.Error("registered after the end")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); err == nil {
		t.Errorf("%s is left", socket)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	again, _ := open(t, Config{Data: dir})
	if n, err := again.Backends.Count(limited(t)); n != 0 || err != nil {
		t.Errorf("%d backends are left, %v", n, err)
	}
	if _, err := again.Leader(limited(t)); err == nil {
		t.Error("somebody still leads")
	}
}

// What a killed process left in memory is removed by the next one; what one uses is not.
func TestSweep(t *testing.T) {
	used, err := tempFolder()
	if err != nil {
		t.Fatal(err)
	}
	left, err := tempFolder()
	if err != nil {
		t.Fatal(err)
	}
	left.lock.Close() // as its process's end would
	next, err := tempFolder()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.path); err == nil {
		t.Error("what nobody uses is left")
	}
	for _, f := range []*folder{used, next} {
		if _, err := os.Stat(f.path); err != nil {
			t.Error(err)
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(f.path); err == nil {
			t.Errorf("%s is left", f.path)
		}
	}
}

// A registration that is taken back is gone; one whose name another process took meanwhile is
// left alone.
func TestRegistrations(t *testing.T) {
	near, far, _, _, _ := pair(t)
	ctx := limited(t)
	count := func(want int) func() bool {
		return func() bool { n, err := near.Backends.Count(ctx); return err == nil && n == want }
	}
	var all []*Registration
	for _, name := range []string{"a", "b/c"} {
		r, err := far.Register(schema.Backend{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	until(t, "both are there", count(2))
	if err := all[0].Update(schema.Backend{Name: "a", Devices: []schema.Device{{Name: "a/cpu/0", DeviceType: "cpu", Out: "hot"}}}); err != nil {
		t.Error(err)
	}
	until(t, "the update is there", func() bool {
		e, err := near.Backends.Get(ctx, "a")
		return err == nil && len(e.Value.Devices) == 1 && e.Value.Devices[0].Out == "hot"
	})
	if err := all[0].Update(schema.Backend{Name: "other"}); err == nil {
		t.Error("a name was changed")
	}
	if _, err := near.Register(schema.Backend{Name: "b/c", Instance: 7}); err != nil {
		t.Fatal(err)
	}
	until(t, "another has taken the name", func() bool {
		e, err := near.Backends.Get(ctx, schema.ID("b/c"))
		return err == nil && e.Value.Instance == 7
	})
	for _, r := range all {
		r.Close()
	}
	until(t, "one is gone", count(1))
	if _, err := far.Register(schema.Backend{Name: "last"}); err != nil {
		t.Error(err)
	}
	until(t, "and one is new", count(2))
	if _, err := far.Register(schema.Backend{}); err == nil {
		t.Error("one without a name was registered")
	}
}

// A full file refuses writes and says what to do; the next start gives back what history
// took, and writes go on.
func TestFullFile(t *testing.T) {
	cfg := Config{Data: t.TempDir(), quota: 8 << 20}
	s, err := Open(limited(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := schema.Observation{Model: "m", Version: "1", State: schema.Failed, Reason: strings.Repeat("x", schema.TextMax)}
	many := []schema.Observation{o}
	for i := range 99 {
		o.Version = fmt.Sprint("v", i)
		many = append(many, o)
	}
	for err == nil {
		err = s.Observed.Write(limited(t), many, nil)
	}
	if !strings.Contains(err.Error(), "space quota") || !strings.Contains(err.Error(), "restart this process") {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, cfg)
	if e, err := again.Observed.Get(limited(t), o.ID()); err != nil || e.Value.Reason != o.Reason {
		t.Errorf("%+v, %v", e, err)
	}
	for range 5 {
		if err := again.Observed.Write(limited(t), many, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Files that etcd cannot read, an address that is taken and a folder that cannot be made are
// errors of Open.
func TestBadStarts(t *testing.T) {
	for _, file := range []string{"snap/db", "wal/*.wal"} {
		dir := t.TempDir()
		s, err := Open(limited(t), Config{Data: filepath.Join(dir, "data")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		all, err := filepath.Glob(filepath.Join(dir, "data/etcd/member", file))
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		for _, f := range all {
			if err := os.WriteFile(f, []byte(strings.Repeat("garbage", 4096)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(limited(t), os.Args[0]) // a process of its own: etcd may leave goroutines behind
		cmd.Env = append(os.Environ(), childWriter+"="+dir)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "starting the etcd in this process ("+dir) {
			t.Errorf("%s: %v:\n%s", file, err, out)
		}
	}
	taken, _ := open(t, Config{Ephemeral: true, Listen: "127.0.0.1:0"})
	address := strings.TrimPrefix(taken.Endpoint(), "http://")
	if _, err := Open(limited(t), Config{Ephemeral: true, Listen: address}); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(limited(t), Config{Data: filepath.Join(file, "data")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}
