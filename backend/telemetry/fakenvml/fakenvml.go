// Package fakenvml is telemetry.NVML in software, for tests: GPUs of which everything can
// be set, and what no GPU can be asked for: to throttle, to lose memory, to hang, to fall
// off the bus and to come back.
//
// Devices do nothing by themselves: a sample is what was set last. One lock guards all.
package fakenvml

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Fake is a host's GPUs.
type Fake struct {
	mu       sync.Mutex
	versions telemetry.Versions
	devices  []telemetry.Device
	states   map[string]*state // by UUID
	absent   error             // NVML is not there at all
	noXIDs   error
	xids     chan telemetry.XID
	closed   int
}

// state is one device's.
type state struct {
	sample     telemetry.Sample
	throughput telemetry.Throughput
	gone       bool
	err        error
	hang       chan struct{} // nil: it answers
	asked      int
}

// xidsMax is how many wait to be told.
const xidsMax = 256

// New is a host with these devices; GPU and Instance make them.
func New(devices ...telemetry.Device) *Fake {
	f := &Fake{versions: telemetry.Versions{Driver: "570.86.15", CUDA: "12.8", NVML: "12.570.86.15"},
		states: map[string]*state{}, xids: make(chan telemetry.XID, xidsMax)}
	for _, d := range devices {
		f.devices = append(f.devices, d)
		f.states[d.UUID] = &state{sample: idle(), throughput: telemetry.Throughput{Sent: telemetry.Known[uint64](0), Received: telemetry.Known[uint64](0)}}
	}
	return f
}

// GPU is the device of an index: all that New needs.
func GPU(index int) telemetry.Device {
	return telemetry.Device{Index: index, UUID: fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", index),
		Name: "NVIDIA H100 80GB HBM3", PCI: fmt.Sprintf("0000:%02x:00.0", 0x3b+index)}
}

// Instance is a MIG instance of a GPU.
func Instance(of telemetry.Device, id int) telemetry.Device {
	return telemetry.Device{Index: id, UUID: fmt.Sprintf("MIG-%08d-%04d-0000-0000-000000000000", of.Index, id),
		Name: of.Name + " MIG 1g.10gb", PCI: of.PCI, Parent: of.UUID, Instance: id, Profile: "1g.10gb"}
}

// idle is a GPU at rest, in good order.
func idle() telemetry.Sample {
	return telemetry.Sample{
		MemoryTotal: telemetry.Known[uint64](80 << 30), MemoryUsed: telemetry.Known[uint64](1 << 30),
		Busy: telemetry.Known(0), MemoryBusy: telemetry.Known(0),
		Power: telemetry.Known(71.5), PowerLimit: telemetry.Known(700.0), Temperature: telemetry.Known(34),
		SMClock: telemetry.Known(1980), SMClockMax: telemetry.Known(1980), MemoryClock: telemetry.Known(2619), MemoryClockMax: telemetry.Known(2619),
		Throttle:          telemetry.Known(health.Idle),
		CorrectedVolatile: telemetry.Known[uint64](0), UncorrectedVolatile: telemetry.Known[uint64](0),
		CorrectedAggregate: telemetry.Known[uint64](3), UncorrectedAggregate: telemetry.Known[uint64](0),
		Remapped:  telemetry.Known(telemetry.Remap{}),
		PCIe:      telemetry.Known(telemetry.Link{Generation: 5, Width: 16, GenerationMax: 5, WidthMax: 16, Replays: telemetry.Known[uint64](0)}),
		Processes: telemetry.Known([]telemetry.Process(nil)),
	}
}

// with changes a device's state under the lock. A UUID that New was not given is a bug of
// the test.
func (f *Fake) with(uuid string, change func(s *state)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[uuid]
	if s == nil {
		panic("fakenvml: no device " + uuid)
	}
	change(s)
}

// Set changes what the next samples of a device are.
func (f *Fake) Set(uuid string, change func(s *telemetry.Sample)) {
	f.with(uuid, func(s *state) { change(&s.sample) })
}

// SetThroughput says what the PCIe link carries.
func (f *Fake) SetThroughput(uuid string, t telemetry.Throughput) {
	f.with(uuid, func(s *state) { s.throughput = t })
}

// Vanish lets a device fall off the bus.
func (f *Fake) Vanish(uuid string) { f.with(uuid, func(s *state) { s.gone = true }) }

// Return brings it back as a reset leaves it: with no error of memory counted.
func (f *Fake) Return(uuid string) {
	f.with(uuid, func(s *state) {
		s.gone = false
		s.sample.CorrectedVolatile, s.sample.UncorrectedVolatile = telemetry.Known[uint64](0), telemetry.Known[uint64](0)
	})
}

// Fail makes the device's samples fail with err; nil: no more.
func (f *Fake) Fail(uuid string, err error) { f.with(uuid, func(s *state) { s.err = err }) }

// Hang makes calls for the device wait until release is called.
func (f *Fake) Hang(uuid string) (release func()) {
	wait := make(chan struct{})
	f.with(uuid, func(s *state) { s.hang = wait })
	return sync.OnceFunc(func() {
		f.with(uuid, func(s *state) { s.hang = nil })
		close(wait)
	})
}

// XID has the driver tell an error of a GPU.
func (f *Fake) XID(uuid string, code uint64) {
	f.xids <- telemetry.XID{UUID: uuid, Instance: telemetry.AnyInstance, Code: code}
}

// InstanceXID has it tell one of a MIG instance.
func (f *Fake) InstanceXID(gpu string, instance int, code uint64) {
	f.xids <- telemetry.XID{UUID: gpu, Instance: instance, Code: code}
}

// NoXIDs makes WaitXID fail with err.
func (f *Fake) NoXIDs(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noXIDs = err
}

// Absent makes all calls fail with err, as where there is no driver.
func (f *Fake) Absent(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absent = err
}

// Asked is how often a device was sampled.
func (f *Fake) Asked(uuid string) (n int) {
	f.with(uuid, func(s *state) { n = s.asked })
	return n
}

// Closed is how often Close was called.
func (f *Fake) Closed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Versions implements telemetry.NVML.
func (f *Fake) Versions() (telemetry.Versions, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versions, f.absent
}

// Devices implements telemetry.NVML. One that has vanished cannot be asked.
func (f *Fake) Devices() ([]telemetry.Device, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent != nil {
		return nil, f.absent
	}
	out := slices.Clone(f.devices)
	for i := range out {
		if f.states[out[i].UUID].gone {
			out[i] = telemetry.Device{Index: out[i].Index, Err: telemetry.ErrGone}
		}
	}
	return out, nil
}

// answer waits while the device hangs, and is its state then.
func (f *Fake) answer(uuid string) (s state, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.states[uuid]
	if f.absent != nil {
		return s, f.absent
	}
	if p == nil {
		return s, fmt.Errorf("%w: NVML does not list %s", telemetry.ErrGone, uuid)
	}
	for p.hang != nil {
		wait := p.hang
		f.mu.Unlock()
		<-wait
		f.mu.Lock()
	}
	p.asked++
	if p.gone {
		return s, fmt.Errorf("%w: it has fallen off the bus", telemetry.ErrGone)
	}
	return *p, p.err
}

// Sample implements telemetry.NVML.
func (f *Fake) Sample(uuid string) (telemetry.Sample, error) {
	s, err := f.answer(uuid)
	if err != nil {
		return telemetry.Sample{}, err
	}
	s.sample.Processes.Value = slices.Clone(s.sample.Processes.Value)
	return s.sample, nil
}

// Throughput implements telemetry.NVML.
func (f *Fake) Throughput(uuid string) (telemetry.Throughput, error) {
	s, err := f.answer(uuid)
	return s.throughput, err
}

// WaitXID implements telemetry.NVML.
func (f *Fake) WaitXID(timeout mono.Dur) (telemetry.XID, error) {
	f.mu.Lock()
	err := f.noXIDs
	f.mu.Unlock()
	if err != nil {
		return telemetry.XID{}, err
	}
	select {
	case x := <-f.xids:
		return x, nil
	case <-time.After(timeout.Std()):
		return telemetry.XID{}, telemetry.ErrTimeout
	}
}

// Close implements telemetry.NVML.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}
