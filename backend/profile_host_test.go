//go:build cgo

package backend

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A profile that another host has measured is not planned with: the model is measured
// anew, the log says why, and from then on it is this host's.
func TestProfileOfAnotherHost(t *testing.T) {
	library := needONNX(t)
	m := loadReshapers(t, map[string]byte{"m": 0})
	cfg := PoolConfig{DeviceType: "cpu", Kind: KindCPU, Devices: 1}
	key := ProfileKey(&m[0], cfg, "")
	other := key
	other.Host = profiler.Host{CPU: "another CPU", Processors: key.Host.Processors}
	week, err := profile.Linear(mono.Second, 3600*mono.Second, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := profiler.Write(other, &profiler.Result{Profile: week}); err != nil {
		t.Fatal(err)
	}
	start := func() string {
		t.Helper()
		var log bytes.Buffer
		b := &Backend{cfg: Config{ONNXRuntime: library, Profiling: profiler.Options{Warmup: 1, Rounds: 3}}, log: zerolog.New(&log)}
		p, err := b.buildPool(t.Context(), cfg, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range p.devices {
			d.Close()
		}
		if l := p.specs[0].Profile.Table; len(l) != 2 || l[0] > 600*mono.Second {
			t.Errorf("planned with %v", p.specs[0].Profile)
		}
		return log.String()
	}
	log := start()
	for _, want := range []string{"measured on something else", `"field":"CPU"`, `"stored":"another CPU"`, `"here":"` + key.Host.CPU, `"model":"m/1"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	if log = start(); strings.Contains(log, "measur") {
		t.Errorf("measured again: %s", log)
	}
}

// What a model is measured for is said: no profile, one that does not say its host, one
// that cannot be read.
func TestWhyMeasured(t *testing.T) {
	for want, err := range map[string]error{
		"no profile yet":                       os.ErrNotExist,
		"does not say what it was measured on": &profiler.Mismatch{Field: "CPU", Here: "x"},
		`"field":"threads","stored":"1"`:       &profiler.Mismatch{Field: "threads", Stored: "1", Here: "2"},
		"the stored profile cannot be read":    os.ErrPermission,
		`"error":"` + os.ErrPermission.Error(): os.ErrPermission,
	} {
		var log bytes.Buffer
		b := &Backend{log: zerolog.New(&log)}
		b.logNoProfile("m/1", "cpu", err)
		if !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s, want %q", log.String(), want)
		}
	}
}
