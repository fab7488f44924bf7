package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
)

// report collects every error of a configuration, each with its key.
type report struct{ errs []error }

func (r *report) need(ok bool, key, format string, args ...any) {
	if !ok {
		r.errs = append(r.errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
}

func (r *report) between(key string, v, low, high int64) {
	r.need(v >= low && v <= high, key, "is %d, must be %d to %d", v, low, high)
}

func (r *report) span(key string, v, low, high mono.Dur) {
	r.need(v >= low && v <= high, key, "is %v, must be %v to %v", v, low, high)
}

func (r *report) oneOf(key, v string, all ...string) {
	r.need(slices.Contains(all, v), key, "%q is none of %s", v, strings.Join(all, ", "))
}

// address checks "tcp:host:port" or "inproc:name".
func (r *report) address(key, a string) {
	scheme, rest, _ := strings.Cut(a, ":")
	switch scheme {
	case "tcp":
		r.hostPort(key, rest)
	case "inproc":
		r.need(rest != "", key, "%q has no name after inproc:", a)
	default:
		r.need(false, key, "%q is no address: write tcp:host:port or inproc:name", a)
	}
}

func (r *report) hostPort(key, a string) {
	_, port, err := net.SplitHostPort(a)
	if err != nil {
		r.need(false, key, "%q is no host:port", a)
		return
	}
	_, err = net.LookupPort("tcp", port)
	r.need(err == nil, key, "%q is no port", port)
}

// validate returns every error at once.
func (c *Config) validate() []error {
	r := &report{}
	r.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	r.oneOf("log.format", c.Log.Format, "auto", "console", "json")
	r.between("procs", int64(c.Procs), 0, 4096)
	r.between("gc_percent", int64(c.GCPercent), 10, 10000)
	r.span("drain", c.Drain, 0, 10*60*mono.Second)
	if c.Metrics != "" {
		r.hostPort("metrics", c.Metrics)
	}
	if c.Admin != "" {
		r.hostPort("admin", c.Admin)
	}
	r.need(c.Traces.Endpoint == "" || strings.HasPrefix(c.Traces.Endpoint, "http://") || strings.HasPrefix(c.Traces.Endpoint, "https://"), "traces.endpoint",
		"%q must be http://HOST:PORT or https://HOST:PORT of a collector's OTLP over HTTP, which listens on 4318 by custom", c.Traces.Endpoint)
	r.need(c.Traces.Share >= 0 && c.Traces.Share <= 1, "traces.share", "is %g, must be 0 to 1", c.Traces.Share)
	r.between("traces.rate", int64(c.Traces.Rate), 0, 1<<20)
	c.RDMA.validate(r)
	r.span("tcp.busy_poll", c.TCP.BusyPoll, 0, mono.Millisecond)
	r.oneOf("tcp.kernel_rtt", c.TCP.KernelRTT, "auto", "never")
	c.Scheduler.validate(r)
	c.Frontend.validate(r)
	c.Backend.validate(r)
	c.Control.validate(r)
	return r.errs
}

func (c *RDMA) validate(r *report) {
	r.oneOf("rdma.mode", c.Mode, "auto", "never", "always")
	r.oneOf("rdma.poll", c.Poll, "adaptive", "busy", "event")
	r.between("rdma.port", int64(c.Port), 0, 255)
	r.between("rdma.gid", int64(c.GID), -1, 65535)
	r.span("rdma.spin", c.Spin, 0, mono.Second)
	r.between("rdma.reads", int64(c.Reads), 4<<10, 1<<40)
	r.between("rdma.traffic_class", int64(c.TrafficClass), 0, 255)
	r.need(c.TrafficClass%4 == 0, "rdma.traffic_class", "is %d, must be a DSCP times 4", c.TrafficClass)
	r.between("rdma.buffers", int64(c.Buffers), 4<<20, 1<<42)
}

func (s *Scheduler) validate(r *report) {
	r.need(len(s.Listen) > 0, "scheduler.listen", "names no address")
	for _, a := range s.Listen {
		r.address("scheduler.listen", a)
	}
	s.validateGroup(r)
	r.between("scheduler.model_loops", int64(s.ModelLoops), 1, 64)
	r.span("scheduler.spin", s.Spin, 0, mono.Second)
	r.span("scheduler.doze", s.Doze, 0, mono.Millisecond)
	r.oneOf("scheduler.model_wait", s.ModelWait, "auto", "park", "poll", "spin")
	r.oneOf("scheduler.rank_wait", s.RankWait, "auto", "park", "poll", "spin")
	r.oneOf("scheduler.rank_thread", s.RankThread, "auto", "own", "shared")
	r.oneOf("scheduler.pin", s.Pin, "auto", "never", "always")
	r.oneOf("scheduler.watch", s.Watch, "viewers", "always")
	r.span("scheduler.watch_after", s.WatchAfter, 100*mono.Millisecond, 3600*mono.Second)
	r.span("scheduler.margin", s.Margin, 0, mono.Second)
	r.between("scheduler.queue_max", int64(s.QueueMax), 1, 1<<22)
	r.between("scheduler.requests_max", int64(s.RequestsMax), 1, 1<<24)
	r.span("scheduler.delay_min", s.DelayMin, 0, mono.Second)
	r.span("scheduler.lead", s.Lead, 0, mono.Second)
	_, err := rank.ParseHeadroom(s.Headroom)
	r.need(err == nil, "scheduler.headroom", "%q: %v", s.Headroom, err)
	r.need(s.Tuner >= 0 && s.Tuner <= tunerMost, "scheduler.tuner", "is %g, must be 0 to %g of a processor", s.Tuner, tunerMost)
	r.span("scheduler.delay_max", s.DelayMax, s.DelayMin, mono.Second)
}

// tunerMost leaves the loops a processor even where there is only one.
const tunerMost = 0.5

func (f *Frontend) validate(r *report) {
	f.Scheduler.validateGroups(r, "frontend.scheduler", frontend.SchedulersMax)
	r.address("frontend.listen", f.Listen)
	if f.Advertise != "" {
		r.address("frontend.advertise", f.Advertise)
	}
	if f.HTTP != "" {
		r.hostPort("frontend.http", f.HTTP)
	}
	if f.GRPC != "" && f.GRPC != GRPCAuto {
		r.hostPort("frontend.grpc", f.GRPC)
	}
	if f.Admin != "" {
		r.hostPort("frontend.admin", f.Admin)
	}
	r.between("frontend.arena", int64(f.Arena), 1<<20, 1<<40)
	r.between("frontend.max_in_flight", int64(f.MaxInFlight), 1, 1<<22)
	r.between("frontend.preprocess", int64(f.Preprocess), 0, 1024)
	r.between("frontend.image_pixels", int64(f.ImagePixels), 1, 1<<30)
	r.between("frontend.image_memory", int64(f.ImageMemory), 1<<20, 1<<40)
	r.between("frontend.outputs_max", int64(f.OutputsMax), 1<<20, 1<<42)
	r.span("frontend.reply_margin", f.ReplyMargin, 0, mono.Second)
	r.between("frontend.body_max", int64(f.BodyMax), 1<<10, 1<<32)
	r.between("frontend.connections", int64(f.Connections), 1, 1<<20)
	if f.UnsentMax != 0 {
		r.between("frontend.unsent_max", int64(f.UnsentMax), int64(f.BodyMax), 1<<40)
	}
	r.span("frontend.header_time", f.HeaderTime, 10*mono.Millisecond, 3600*mono.Second)
	r.span("frontend.body_time", f.BodyTime, 10*mono.Millisecond, 3600*mono.Second)
	r.between("frontend.body_rate", int64(f.BodyRate), 0, 1<<30)
	r.need(f.AccessShare >= 0 && f.AccessShare <= 1, "frontend.access_share", "is %g, must be 0 to 1", f.AccessShare)
	r.between("frontend.access_rate", int64(f.AccessRate), 1, 1<<20)
	r.between("frontend.record_max", int64(f.RecordMax), 1<<10, 1<<42)
	r.need(f.FullStatus == 503 || f.FullStatus == 429, "frontend.full_status", "is %d, must be 429 or 503", f.FullStatus)
}

func (b *Backend) validate(r *report) {
	b.validateScheduler(r)
	r.between("backend.outputs_max", int64(b.OutputsMax), 1<<20, 1<<42)
	r.between("backend.cache_size", int64(b.CacheSize), 1<<20, 1<<50)
	r.between("backend.cache_rate", int64(b.CacheRate), 0, 1<<40)
	for i, p := range b.Pools {
		key := fmt.Sprintf("backend.pools[%d]", i)
		r.need(p.DeviceType != "" || p.Kind == "cuda", key+".device_type", "is empty: name the kind of device, for example cpu")
		r.oneOf(key+".kind", p.Kind, "cpu", "cuda", "emulated")
		p.validateGPUs(r, key)
		p.validatePaged(r, key)
		r.between(key+".threads", int64(p.Threads), 0, 256)
		r.need(p.Jitter >= 0 && p.Jitter <= 10, key+".jitter", "is %g, must be 0 to 10", p.Jitter)
		for j, z := range p.Zoo {
			zkey := fmt.Sprintf("%s.zoo[%d]", key, j)
			r.need(p.Kind == "emulated", zkey, "emulated models need a pool of kind emulated")
			r.need(z.CSV != "", zkey+".csv", "is empty")
			r.between(zkey+".copies", int64(z.Copies), 0, 4096)
			r.span(zkey+".slo", z.SLO, 0, 3600*mono.Second)
			r.between(zkey+".max_batch", int64(z.MaxBatch), 0, 1024)
		}
	}
}

// validatePaged checks a pool whose weights come and go.
func (p *Pool) validatePaged(r *report, key string) {
	m := p.Paged
	if m == nil {
		return
	}
	r.need(!p.Resident, key+".resident", "is true beside paged: leave one of them out (a model of a paged pool stays on its devices if its own config.yaml says resident: true)")
	key += ".paged"
	if m.Page != 0 {
		r.between(key+".page", int64(m.Page), 4<<10, 1<<34)
	}
	r.need(m.Pages >= 0 && m.Pages <= 1<<24, key+".pages", "is %d, must be 1 to %d; left out, a device has as many as the pool's memory", m.Pages, 1<<24)
	r.need(m.Pages == 0 || p.Memory == 0, key+".pages", "is %d beside a memory of %v: give one of them", m.Pages, p.Memory)
	n := int64(p.Memory / m.Size())
	r.need(m.Pages != 0 || n >= 1 && n <= 1<<24, key+".pages", "memory (%v) has %d pages of %v, must be 1 to %d: give pages, or the pool's memory", p.Memory, n, m.Size(), 1<<24)
	r.need(m.PCIe == "" || m.PCIe == "shared" && p.Kind == "emulated", key+".pcie", "is %q, must be shared, of a pool of kind emulated, or nothing", m.PCIe)
	r.need(m.Bandwidth == 0 || p.Kind == "emulated", key+".bandwidth", "is for pools of kind emulated")
	r.between(key+".bandwidth", int64(m.Bandwidth), 0, 1<<42)
}

// validateGPUs checks what only pools of kind cuda have, and how many devices there are.
func (p *Pool) validateGPUs(r *report, key string) {
	if p.Memory != 0 {
		r.between(key+".memory", int64(p.Memory), 1<<20, 1<<42)
	}
	if p.Kind != "cuda" {
		r.between(key+".devices", int64(p.Devices), 1, 4096)
		r.need(len(p.GPUs) == 0, key+".gpus", "is for pools of kind cuda")
		r.need(p.Precision == "", key+".precision", "is for pools of kind cuda")
		r.need(p.Provider == "", key+".provider", "is for pools of kind cuda")
		return
	}
	r.between(key+".devices", int64(p.Devices), 0, 64)
	r.need(len(p.GPUs) == 0 || p.Devices == 0 || p.Devices == len(p.GPUs), key+".devices", "is %d, and gpus names %d: leave one of them out", p.Devices, len(p.GPUs))
	for i, g := range p.GPUs {
		r.need(g != "" && slices.Index(p.GPUs, g) == i, key+".gpus", "%q is empty or there twice", g)
	}
	if p.Precision != "" {
		r.oneOf(key+".precision", p.Precision, "fp32", "tf32", "fp16")
	}
	if p.Provider != "" {
		r.oneOf(key+".provider", p.Provider, "cuda", "tensorrt")
	}
}

// Check is what validate says of one pool of GPUs that flags make.
func (p *Pool) Check() error {
	r := &report{}
	p.validateGPUs(r, "pool")
	return errors.Join(r.errs...)
}
