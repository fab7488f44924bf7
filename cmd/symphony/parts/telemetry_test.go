package parts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/fakenvml"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// A backend's GPUs are watched beside it; verdicts reach who asked, metrics the process's.
func TestWatchGPUs(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0), fakenvml.GPU(1))
	uuid := fakenvml.GPU(1).UUID
	var log strings.Builder // written here alone: the GPU stays healthy until the watchers have what they want
	p := &Process{Log: zerolog.New(&log).Level(zerolog.InfoLevel), registry: prometheus.NewRegistry()}
	g := p.WatchGPUs(func() (telemetry.NVML, error) { return fake, nil }, []string{uuid}, health.Config{})
	if g == nil || !strings.Contains(log.String(), `"gpus":1,"driver":"570.86.15","cuda":"12.8"`) {
		t.Fatal(log.String())
	}
	got := make(chan health.Verdict, 10)
	if g.Watch(fakenvml.GPU(0).UUID, func(health.Verdict) {}) || !g.Watch(uuid, func(v health.Verdict) { got <- v }) {
		t.Error("the wrong device is watched")
	}
	fake.XID(uuid, 79)
	select {
	case v := <-got:
		if v.State != health.Out {
			t.Error(v)
		}
	case <-time.After(20 * time.Second):
		t.Error("no verdict")
	}
	families, err := p.registry.Gather()
	if err != nil || len(families) < 10 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
	if err := g.Close(); err != nil || fake.Closed() != 1 {
		t.Error(err, fake.Closed())
	}
}

// Without NVML that is one line, and nothing else changes.
func TestWatchGPUsWithoutNVML(t *testing.T) {
	missing := &telemetry.UnsupportedError{What: "libnvidia-ml.so.1 is not here", Need: "install NVIDIA's driver"}
	broken := fakenvml.New()
	broken.Absent(errors.New("unknown error"))
	for want, open := range map[string]func() (telemetry.NVML, error){
		"install NVIDIA's driver": func() (telemetry.NVML, error) { return nil, missing },
		"unknown error":           func() (telemetry.NVML, error) { return broken, nil },
	} {
		var log strings.Builder
		p := &Process{Log: zerolog.New(&log), registry: prometheus.NewRegistry()}
		g := p.WatchGPUs(open, nil, health.Config{})
		if g != nil || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), want) {
			t.Errorf("%v, %s", g, log.String())
		}
		if g.Watch("GPU-0", func(health.Verdict) {}) || g.Close() != nil {
			t.Error("nil watches")
		}
	}
	if broken.Closed() != 1 {
		t.Error("what was opened is not closed")
	}
}
