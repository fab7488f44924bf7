package telemetry

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Monitor.
type Config struct {
	NVML     NVML
	Devices  []string // UUIDs of those to watch; none: all that NVML lists
	Interval mono.Dur // between samples; 0: 500 ms, by which all reactions come within 2 s
	Health   health.Config
	Logger   zerolog.Logger
	Metrics  prometheus.Registerer // nil: none
}

const (
	defaultInterval = 500 * mono.Millisecond
	closeWait       = 2 * time.Second // for calls of NVML that are under way
)

// Monitor watches devices until it is closed.
type Monitor struct {
	cfg     Config // Immutable, as what follows
	log     zerolog.Logger
	all     []Device // of the host
	devices []Device // that are watched
	units   []*unit  // as devices
	metrics *metrics
	quit    chan struct{}
	asking  sync.WaitGroup // goroutines that call NVML: they may hang in it
	judging sync.WaitGroup // those that do not
	closing sync.Once
	closed  error // of Close
}

// Start begins to watch.
func Start(c Config) (*Monitor, error) {
	if c.Interval <= 0 {
		c.Interval = defaultInterval
	}
	all, err := c.NVML.Devices()
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	m := &Monitor{cfg: c, log: c.Logger, all: all, devices: choose(all, c.Devices), quit: make(chan struct{})}
	own := processes{own: os.Getpid(), name: ProcessName}
	for i := range m.devices {
		m.units = append(m.units, newUnit(m, &m.devices[i], own))
	}
	if m.metrics, err = newMetrics(m, c.Metrics); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	for _, u := range m.units {
		m.judging.Add(1)
		go u.judgeLoop()
		m.asking.Add(1)
		go u.sampleLoop()
	}
	m.asking.Add(1)
	go m.eventLoop()
	return m, nil
}

// choose takes the devices of the given UUIDs, in NVML's order; who is not in its list
// comes last. Those that could not be asked have no UUID, and nobody can want them.
func choose(all []Device, uuids []string) []Device {
	var out []Device
	for _, d := range all {
		if d.Err == nil && (len(uuids) == 0 || slices.Contains(uuids, d.UUID)) {
			out = append(out, d)
		}
	}
	for _, uuid := range uuids {
		if !slices.ContainsFunc(out, func(d Device) bool { return d.UUID == uuid }) {
			out = append(out, Device{Index: -1, UUID: uuid})
		}
	}
	return out
}

// Devices are those that are watched.
func (m *Monitor) Devices() []Device { return slices.Clone(m.devices) }

func (m *Monitor) find(uuid string) *unit {
	for _, u := range m.units {
		if u.device.UUID == uuid {
			return u
		}
	}
	return nil
}

// Watch has f called with each new verdict on a device, and at once when it is not
// healthy already. f must not block, nor close the Monitor. False: the device is none of
// those that are watched.
func (m *Monitor) Watch(uuid string, f func(health.Verdict)) bool {
	u := m.find(uuid)
	if u == nil {
		return false
	}
	u.report(report{watch: f})
	return true
}

// Verdict is the present one.
func (m *Monitor) Verdict(uuid string) (v health.Verdict, ok bool) {
	if u := m.find(uuid); u != nil {
		v, ok = u.snapshot().verdict, true
	}
	return v, ok
}

// Sample is the latest one; false: there is none, or it is no longer true.
func (m *Monitor) Sample(uuid string) (s Sample, ok bool) {
	if u := m.find(uuid); u != nil {
		if r := u.snapshot(); r.fresh {
			s, ok = r.sample, true
		}
	}
	return s, ok
}

// eventLoop waits for XIDs and hands them to whom they concern.
func (m *Monitor) eventLoop() {
	defer m.asking.Done()
	said := false
	for {
		x, err := m.cfg.NVML.WaitXID(m.cfg.Interval)
		select {
		case <-m.quit:
			return
		default:
		}
		switch {
		case err == nil:
			m.xid(x)
		case errors.Is(err, ErrTimeout):
		case errors.Is(err, errors.ErrUnsupported):
			m.log.Warn().Err(err).Msg("GPUs: the driver tells no XIDs here; what they would say is not known")
			return
		default:
			if !said {
				m.log.Warn().Err(err).Msg("GPUs: waiting for XIDs failed; trying on")
			}
			said = true
			m.pause()
		}
	}
}

// pause is an interval, or less at the end.
func (m *Monitor) pause() {
	select {
	case <-m.quit:
	case <-time.After(m.cfg.Interval.Std()):
	}
}

func (m *Monitor) xid(x XID) {
	for _, u := range m.units {
		d := u.device
		gpu, instance := d.UUID, AnyInstance
		if d.Parent != "" {
			gpu, instance = d.Parent, d.Instance
		}
		if x.UUID != "" && x.UUID != gpu {
			continue
		}
		if x.Instance == AnyInstance || instance == AnyInstance || x.Instance == instance {
			m.metrics.countXID(d, x.Code)
			u.report(report{xid: x.Code})
		}
	}
}

// Close ends it. An error: a call of NVML has not returned; the goroutine that made it is
// left behind, and NVML must not be closed.
func (m *Monitor) Close() error {
	m.closing.Do(func() {
		close(m.quit)
		m.judging.Wait()
		m.metrics.unregister()
		ended := make(chan struct{})
		go func() {
			m.asking.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(closeWait):
			m.closed = errors.New("telemetry: NVML has not answered: its goroutines are left behind")
		}
	})
	return m.closed
}
