package telemetry

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Glance judges a device by one sample, for people: as if what it shows had lasted. err is
// of the sample, or of the device itself.
func Glance(s *Sample, err error) health.Verdict {
	if err != nil {
		v := health.Verdict{State: health.Warn, Cause: err.Error()}
		if errors.Is(err, ErrGone) {
			v.State, v.Remedy = health.Out, health.Reset
		}
		return v
	}
	f := factsOf(s, &Device{}, processes{name: func(int) (string, bool) { return "", false }})
	f.Others = "" // people see who computes there
	at := mono.Time(0)
	j := health.New(health.Config{Silence: 3600 * mono.Second}, at)
	for range 20 {
		at = at.Add(mono.Second)
		j.Observe(at, f)
	}
	v := j.Verdict()
	if n := s.UncorrectedVolatile.Value; n > 0 && v.State == health.Healthy {
		v = health.Verdict{State: health.Warn, Cause: fmt.Sprintf("%d uncorrectable memory errors since the driver was loaded", n)}
	}
	return v
}

// Describe names processes for people: "process 4711 (python3, 3174 MiB)".
func Describe(list []Process) string { return processes{name: ProcessName}.describe(list) }
