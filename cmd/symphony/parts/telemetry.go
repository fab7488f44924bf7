package parts

import (
	"errors"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// GPUs watches the GPUs of a backend. nil watches nothing: where NVML is missing, a
// backend serves without it.
type GPUs struct {
	monitor *telemetry.Monitor
	nvml    telemetry.NVML
}

// WatchGPUs begins to watch the devices of these UUIDs (as CUDA tells them), with metrics
// beside those of the process. open is cgo/nvml's. Where NVML cannot be had that is one
// line, and nil.
func (p *Process) WatchGPUs(open func() (telemetry.NVML, error), uuids []string, c health.Config) *GPUs {
	api, err := open()
	if err != nil {
		p.Log.Warn().Err(err).Msg("GPUs are not watched: throttling, memory errors and XIDs go unseen, and there are no metrics of them")
		return nil
	}
	m, err := telemetry.Start(telemetry.Config{NVML: api, Devices: uuids, Health: c, Logger: p.Log, Metrics: p.registry})
	if err != nil {
		p.Log.Warn().Err(errors.Join(err, api.Close())).Msg("GPUs are not watched: throttling, memory errors and XIDs go unseen, and there are no metrics of them")
		return nil
	}
	event := p.Log.Info().Int("gpus", len(m.Devices()))
	if v, err := api.Versions(); err == nil {
		event = event.Str("driver", v.Driver).Str("cuda", v.CUDA)
	}
	event.Msg("GPUs are watched (NVML)")
	return &GPUs{m, api}
}

// Watch has f called with each new verdict on a device, and at once when it is not healthy.
// f must not block. False: nobody watches the device.
func (g *GPUs) Watch(uuid string, f func(health.Verdict)) bool {
	return g != nil && g.monitor.Watch(uuid, f)
}

// Close ends it. A driver that hangs is left alone, with its library.
func (g *GPUs) Close() error {
	if g == nil {
		return nil
	}
	if err := g.monitor.Close(); err != nil {
		return err
	}
	return g.nvml.Close()
}
