package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestThousandModels: many models are added, get a second version, and are removed while
// others are asked: of those no request is lost or refused, and no more are bad than without.
// After it the scheduler and the backend are as large as before.
func TestThousandModels(t *testing.T) {
	beside(t)
	p := startPlanned(t, []string{"--data", t.TempDir()}, 1, 2, many(4, "250ms")...)
	n, rate := 200, 300.0
	if full() {
		n, rate = 1000, 1000
	}
	f := p.trafficOf(rate, names(p.models)...)
	time.Sleep(span(3*time.Second, 10*time.Second))
	from, machine := time.Now(), watch(t)
	control, _, _ := f.share(from.Add(-span(3*time.Second, 10*time.Second)), from)
	p.wave(t, n) // the first one fills what is kept for the next: files, tables, pools of buffers
	before := p.goroutines(t)
	p.wave(t, n)
	to := time.Now()
	f.stop(t)
	bad, all, reasons := f.share(from, to)
	most := 0.001
	if !full() {
		most += control + machine.pardon(t, 250*time.Millisecond)
	}
	t.Logf("of %d requests beside it %.4f are bad: %v; %.4f before it", all, bad, reasons, control)
	if bad > most || reasons["unavailable"]+reasons["unknown_model"] > 0 {
		t.Errorf("of %d requests of others %.4f are bad, at most %.4f may: %v", all, bad, most, reasons)
	}
	eventually(t, 30*time.Second, "goroutines are as before", func() error {
		if now := p.goroutines(t); now > before+20 {
			return fmt.Errorf("%g, and %g before the second wave", now, before)
		}
		return nil
	})
}

// wave adds n models, then a second version of each, and removes them.
func (p *planned) wave(t *testing.T, n int) {
	t.Helper()
	var all []string
	source := p.source(emulated{"wave", 0.5, 5, "250ms"}, 1)
	edit(t, source, "load: 50ms\nmemory: {static: 100MiB, dynamic: 20MiB}", "memory: {static: 1MiB}") // so that all fit
	for version := 1; version <= 2; version++ {
		text := "name,version,source\n"
		for i := range n {
			name := fmt.Sprintf("wave%04d", i)
			if version == 1 {
				all = append(all, name)
			}
			text += fmt.Sprintf("%s,%d,%s\n", name, version, source)
		}
		path := filepath.Join(p.folder, "wave.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p.ordered("model", "add", "--from", path, "--wait", "--timeout", "240s")
	}
	p.ordered(append([]string{"model", "remove"}, all...)...)
	eventually(t, 60*time.Second, "the models are gone", func() error {
		if out := p.ordered("model", "list"); strings.Contains(out, "wave0") {
			return fmt.Errorf("%s", tail(out, 300))
		}
		c := p.client.Models()
		for i := range c.Entries {
			if strings.HasPrefix(c.Entries[i].Spec.Name, "wave") {
				return fmt.Errorf("%s is in the catalogue", c.Entries[i].Spec.Key())
			}
		}
		return nil
	})
}

// goroutines are the frontend's: the process that has metrics at a known address.
func (p *planned) goroutines(t *testing.T) float64 { return metric(t, p.http, "go_goroutines") }

// TestModelsThatFail: a model with a broken file, one that is too large and one whose source is
// not there are failed, with the reason, for who asks by command, by HTTP and by metric, and in the log;
// the rest is served, and one that is mended is served by itself.
func TestModelsThatFail(t *testing.T) {
	beside(t)
	p := startPlanned(t, []string{"--data", t.TempDir()}, 1, 1, emulated{"good", 0.5, 5, "5s"})
	large := p.source(emulated{"large", 0.5, 5, "5s"}, 1)
	edit(t, large, "static: 100MiB", "static: 900GiB")
	wrong := p.source(emulated{"wrong", 0.5, 5, "5s"}, 1)
	edit(t, wrong, "max_batch: 64", "max_batch: 0")
	profile := p.source(emulated{"profile", 0.5, 5, "5s"}, 1)
	edit(t, profile, "beta_ms: 5", "beta_ms: -5")
	for name, c := range map[string]struct{ source, reason string }{
		"large":   {large, "memory"},
		"wrong":   {wrong, "max_batch"},
		"profile": {profile, "profile"},
		"absent":  {"file://" + p.folder + "/nowhere", "nowhere"},
	} {
		out, err := p.order("model", "add", name+"/1", "--source", c.source, "--wait", "--timeout", "30s")
		if err == nil || !strings.Contains(out, c.reason) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if out := p.ordered("model", "show", name); !strings.Contains(out, "failed") || !strings.Contains(out, c.reason) {
			t.Errorf("%s is shown as\n%s", name, out)
		}
		ctx, cancel := p.call()
		m, err := p.control.Model(ctx, name)
		cancel()
		if err != nil || len(m.Versions) != 1 || m.Versions[0].State != "failed" || !strings.Contains(m.Versions[0].Reason, c.reason) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if log := p.controller.log.String(); !strings.Contains(log, name+"/1") || !strings.Contains(log, c.reason) {
			t.Errorf("the controller's log does not tell of %s:\n%s", name, tail(log, 2000))
		}
	}
	l := p.callers(t, "good")
	edit(t, wrong, "max_batch: 0", "max_batch: 8")
	eventually(t, 90*time.Second, "what is mended is served", func() error {
		if out := p.ordered("model", "show", "wrong"); !strings.Contains(out, "serving") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	l.end(t)
}

// edit changes a source's config.yaml.
func edit(t *testing.T, source, from, to string) {
	t.Helper()
	path := filepath.Join(strings.TrimPrefix(source, "file://"), "config.yaml")
	text, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %q", path, from)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
