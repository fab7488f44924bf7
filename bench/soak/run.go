package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Progress is where a run is.
type Progress struct {
	Elapsed mono.Dur // since the load began
	Counts  Counts
	Faults  int    // begun
	Now     string // fault that is under way
	BadRate float64
	Failed  int // violations so far
}

// run is one soak.
type run struct {
	cfg     Config
	cluster *cluster
	web     *web
	windows *windows
	ledger  *ledger
	account *account
	sources []*source
	self    string                        // address of this process's own /metrics
	usage   usage                         // of Run's goroutine
	before  map[string]map[string]float64 // metrics by part, before the first request

	mu         sync.Mutex // Guards violations.
	violations []string
}

// violationsMost bounds the list: a broken system needs no more.
const violationsMost = 50

func (r *run) failed(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) < violationsMost {
		r.violations = append(r.violations, fmt.Sprintf(format, args...))
	}
}

// Run runs a soak until its end or ctx's, and ends all that it started. attr is what
// processes are started with; metrics is this process's registry. An error means that
// there is no result.
func Run(ctx context.Context, cfg Config, attr *syscall.SysProcAttr, metrics *prometheus.Registry) (*Result, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	begin, before := mono.Now(), cpuSeconds()
	c, err := newCluster(cfg, attr, metrics)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, cluster: c, web: newWeb(), windows: &windows{}, ledger: newLedger()}
	stopSelf, err := r.serveSelf(metrics)
	if err == nil {
		err = r.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, errors.Join(c.close()...))
	}
	defer stopSelf()
	plan := PlanOf(cfg)
	p := &pauses{}
	r.before, _ = r.look()
	r.soak(ctx, plan, p)
	loaded := mono.Now().Sub(r.windows.begin)
	r.web.close()
	r.quiet(ctx.Err() != nil)
	for _, err := range c.close() {
		r.failed("at the end: %v", err)
	}
	span := mono.Now().Sub(begin)
	res := r.result(plan, p, loaded, ctx.Err() != nil)
	res.CPU = (cpuSeconds() - before) / span.Seconds()
	return res, nil
}

// serveSelf answers /metrics of this process, so that it is looked at like the others.
func (r *run) serveSelf(metrics *prometheus.Registry) (stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return func() {}, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(ln) }() // ends with stop
	r.self = ln.Addr().String()
	return func() { s.Close() }, nil
}

// readyMax is how long the parts may take until they serve.
const readyMax = 60 * time.Second

func (r *run) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	if err := r.cluster.dial(ctx); err != nil {
		return err
	}
	for {
		err := r.cluster.healthy(r.web)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the parts do not come up: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	var names []string
	for _, m := range r.cfg.Models {
		names = append(names, m.Name)
	}
	r.account = newAccount(r.windows, r.ledger, names)
	for i, client := range r.cluster.clients {
		r.sources = append(r.sources, &source{name: fmt.Sprintf("client-%d", i), models: r.cfg.Models, ledger: r.ledger, send: throughClient(client)})
	}
	for i, l := range r.cluster.httpLinks {
		r.sources = append(r.sources, &source{name: fmt.Sprintf("http-%d", i), http: true, models: r.cfg.Models, ledger: r.ledger, send: throughHTTP(r.web, l)})
	}
	return nil
}

// soak runs load, faults and checks beside each other until the load has ended.
func (r *run) soak(ctx context.Context, plan []Fault, p *pauses) {
	r.windows.begin = mono.Now()
	loaded, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	wait.Add(2)
	go func() { defer wait.Done(); r.faults(loaded, plan) }()
	go func() { defer wait.Done(); p.watch(loaded) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := traffic(ctx, r.cfg, r.sources, r.account); err != nil {
			r.failed("the load: %v", err)
		}
	}()
	r.watch(ended)
	cancel()
	wait.Wait()
}

// faults goes through the plan.
func (r *run) faults(ctx context.Context, plan []Fault) {
	for _, f := range plan {
		sleep(ctx, r.windows.begin.Add(r.cfg.Warmup+f.At).Sub(mono.Now()))
		if ctx.Err() != nil {
			return
		}
		r.fault(ctx, f)
	}
}

// watch looks at the ledger and the processes until the load has ended.
func (r *run) watch(ended <-chan struct{}) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	sampled, told := mono.Now(), mono.Now()
	gone := map[*process]bool{}
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		now := mono.Now()
		counts := r.ledger.look(now)
		for _, t := range r.cluster.parts {
			if p, life, _ := t.now(); p.endedByItself() && !gone[p] {
				gone[p] = true
				r.failed("%s (life %d) ended by itself: %v\n%s", t.name, life, p.cmd.ProcessState, p.log)
			}
		}
		win, busy := r.windows.now()
		if now.Sub(sampled) >= r.cfg.Sample && !busy && now.Sub(r.windows.begin) > r.cfg.Warmup {
			sampled = now
			r.sample()
		}
		if now.Sub(told) >= r.cfg.ProgressEvery && r.cfg.Progress != nil {
			told = now
			r.tell(counts, win, busy)
		}
	}
}

// look asks every process for its metrics.
func (r *run) look() (sums map[string]map[string]float64, wrong []string) {
	sums = map[string]map[string]float64{}
	ask := func(name, address string) {
		s, err := r.web.sums(address)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", name, err))
			return
		}
		sums[name] = s
	}
	for _, t := range r.cluster.parts {
		_, _, listen := t.now()
		ask(t.name, listen[0])
	}
	ask(selfName, r.self)
	return sums, wrong
}

const selfName = "soak itself"

// sample notes what every process uses. One that does not answer is no failure: it may
// just have been killed.
func (r *run) sample() {
	sums, _ := r.look()
	for _, t := range r.cluster.parts {
		if s, ok := sums[t.name]; ok {
			_, life, _ := t.now()
			r.usage.add(t.name, life, s)
		}
	}
	if s, ok := sums[selfName]; ok {
		r.usage.add(selfName, 1, s)
	}
}

func (r *run) tell(c Counts, win Window, busy bool) {
	all, _, _, _ := r.account.calm.Summarise(1)
	p := Progress{Elapsed: mono.Now().Sub(r.windows.begin), Counts: c, Faults: len(r.windows.list()), BadRate: all.BadRate}
	if busy {
		p.Now = fmt.Sprintf("%s of %s", win.Kind, win.Target)
	}
	r.mu.Lock()
	p.Failed = len(r.violations)
	r.mu.Unlock()
	r.cfg.Progress(p)
}

// quietMax is how long after the last answer something may still be held. (fasthttp
// keeps the goroutine of a connection that ended for up to 20 s.)
const quietMax = 30 * mono.Second

// quiet demands that nothing is held once every request is answered. Who interrupts
// does not want to wait for connections' goroutines.
func (r *run) quiet(interrupted bool) {
	begin := mono.Now()
	for {
		wrong := r.holding(!interrupted)
		if len(wrong) == 0 {
			return
		}
		if mono.Now().Sub(begin) > quietMax {
			for _, text := range wrong {
				r.failed("at the end: %s", text)
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// holding is what processes hold that have nothing to do: requests, slabs, and more
// files and goroutines than before the first request. A part that was started again is
// compared with its first life.
func (r *run) holding(growth bool) (wrong []string) {
	sums, wrong := r.look()
	for part, now := range sums {
		for name, most := range held() {
			if now[name] > most {
				wrong = append(wrong, fmt.Sprintf("%s: %s is %g", part, name, now[name]))
			}
		}
		for _, g := range gauges() {
			if old, ok := r.before[part][g.metrics]; growth && ok && g.quiet > 0 && now[g.metrics] > old+g.quiet {
				wrong = append(wrong, fmt.Sprintf("%s: %.0f %s without load, %.0f before the first request", part, now[g.metrics], g.name, old))
			}
		}
	}
	return wrong
}

// cpuSeconds is what this process and those that it awaited have used.
func cpuSeconds() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return sum
}
