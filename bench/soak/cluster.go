package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/frontend"
)

// part is a scheduler, backend or frontend and its present life.
type part struct {
	name string
	// args makes the command line; the addresses are new in every life.
	args func(addresses []string) []string
	// addresses is how many it listens on; the first answers /metrics.
	addresses int
	aims      map[int][]*link // address -> links that lead there

	mu     sync.Mutex // Guards what follows.
	life   int
	listen []string
	p      *process
}

func (t *part) now() (p *process, life int, listen []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.p, t.life, t.listen
}

// cluster is everything that runs.
type cluster struct {
	cfg     Config
	dir     string // models and configuration
	start   *starter
	links   []*link
	parts   []*part
	clients []*frontend.Client
	metrics *prometheus.Registry // of the clients

	scheduler            *part
	backends, frontends  []*part
	httpLinks, dataLinks []*link
}

func newCluster(cfg Config, attr *syscall.SysProcAttr, metrics *prometheus.Registry) (*cluster, error) {
	c := &cluster{cfg: cfg, start: newStarter(attr), metrics: metrics}
	var err error
	if c.dir, err = os.MkdirTemp("", "symphony-soak"); err == nil {
		err = c.writeFiles()
	}
	if err == nil {
		err = c.makeParts()
	}
	for _, t := range c.parts {
		if err == nil {
			err = c.run(t)
		}
	}
	if err != nil {
		return nil, errors.Join(err, errors.Join(c.close()...))
	}
	return c, nil
}

// writeFiles makes the models' repository and the backends' configuration.
func (c *cluster) writeFiles() error {
	for _, m := range c.cfg.Models {
		text := fmt.Sprintf("platform: emulated\ndevice_type: emulated\nslo: %v\nmax_batch: %d\nprofile: {alpha_ms: %g, beta_ms: %g}\n"+
			"inputs: [{name: input, type: FP32, shape: [%d]}]\noutputs: [{name: output, type: FP32, shape: [%d]}]\n",
			m.SLO.Std(), batchMax, m.Alpha.Millis(), m.Beta.Millis(), m.Floats, m.Echo)
		folder := filepath.Join(c.dir, "models", m.Name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("backend:\n  pools: [{device_type: emulated, kind: emulated, devices: %d}]\n", c.cfg.GPUsEach)
	return os.WriteFile(filepath.Join(c.dir, "backend.yaml"), []byte(text), 0o644)
}

// link makes the next one, which leads to an address of a part.
func (c *cluster) link(to *part, address int) (*link, error) {
	l, err := newLink(c.cfg.linkNames()[len(c.links)])
	if err != nil {
		return nil, err
	}
	c.links = append(c.links, l)
	if to != nil {
		to.aims[address] = append(to.aims[address], l)
	}
	return l, nil
}

func newPart(name string, addresses int) *part {
	return &part{name: name, addresses: addresses, aims: map[int][]*link{}}
}

// plain is what all parts are told: the soak is about TCP, and loads nothing into the kernel.
func plain() []string {
	return []string{"--log=info", "--log-format=console", "--set=rdma.mode=never", "--set=tcp.kernel_rtt=never"}
}

func (c *cluster) makeParts() error {
	c.scheduler = newPart("scheduler", 2)
	c.scheduler.args = func(a []string) []string {
		return append([]string{"scheduler", "--metrics=" + a[0], "--listen=tcp:" + a[1]}, plain()...)
	}
	c.parts = append(c.parts, c.scheduler)
	for i := range c.cfg.Backends {
		t := newPart(fmt.Sprintf("backend-%d", i), 1)
		l, err := c.link(c.scheduler, 1)
		if err != nil {
			return err
		}
		t.args = func(a []string) []string {
			return append([]string{"backend", "--config=" + filepath.Join(c.dir, "backend.yaml"), "--scheduler=tcp:" + l.address(),
				"--repository=" + filepath.Join(c.dir, "models"), "--name=" + t.name, "--metrics=" + a[0]}, plain()...)
		}
		c.backends, c.parts = append(c.backends, t), append(c.parts, t)
	}
	for i := range c.cfg.Frontends {
		t := newPart(fmt.Sprintf("frontend-%d", i), 2)
		l, err := c.link(c.scheduler, 1)
		if err != nil {
			return err
		}
		h, err := c.link(t, 0)
		if err != nil {
			return err
		}
		h.http = true
		t.args = func(a []string) []string {
			return append([]string{"frontend", "--http=" + a[0], "--listen=tcp:" + a[1], "--scheduler=tcp:" + l.address(), "--name=" + t.name,
				fmt.Sprintf("--set=frontend.arena=%d", arenaBytes), fmt.Sprintf("--set=frontend.body_max=%d", bodyMax)}, plain()...)
		}
		c.httpLinks, c.frontends, c.parts = append(c.httpLinks, h), append(c.frontends, t), append(c.parts, t)
	}
	return nil
}

// startTries is for ports that another process took in between.
const startTries = 3

// startMax is how long a part may take until it listens.
const startMax = 20 * time.Second

// run begins a life of a part: it must listen within startMax.
func (c *cluster) run(t *part) (err error) {
	for range startTries {
		if err = c.try(t); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not start: %w", t.name, err)
}

func (c *cluster) try(t *part) error {
	var listen []string
	for range t.addresses {
		a, err := freeAddress()
		if err != nil {
			return err
		}
		listen = append(listen, a)
	}
	p, err := c.start.start(c.cfg.Binary, t.args(listen))
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.p, t.listen = p, listen
	t.life++
	t.mu.Unlock()
	for i, links := range t.aims {
		for _, l := range links {
			l.aim(listen[i])
		}
	}
	for end := time.Now().Add(startMax); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.done:
			p.want()
			return fmt.Errorf("it ended: %v\n%s", p.cmd.ProcessState, p.log)
		default:
		}
		if conn, err := net.Dial("tcp", listen[0]); err == nil {
			return conn.Close()
		}
	}
	p.kill()
	return fmt.Errorf("does not listen after %v\n%s", startMax, p.log)
}

// dial makes the clients of this process.
func (c *cluster) dial(ctx context.Context) error {
	for i := range c.cfg.Clients {
		name := fmt.Sprintf("client-%d", i)
		up, err := c.link(c.scheduler, 1)
		if err != nil {
			return err
		}
		_, _, listen := c.scheduler.now()
		up.aim(listen[1])
		data, err := c.link(nil, 0)
		if err != nil {
			return err
		}
		own, err := freeAddress()
		if err != nil {
			return err
		}
		data.aim(own)
		client, err := frontend.Dial(ctx, frontend.Options{Scheduler: "tcp:" + up.address(), Listen: "tcp:" + own, Advertise: "tcp:" + data.address(),
			Name: name, ArenaBytes: arenaBytes, Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, c.metrics)})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.clients, c.dataLinks = append(c.clients, client), append(c.dataLinks, data)
	}
	return nil
}

// healthy is nil when every client sees every GPU and every frontend serves every model.
func (c *cluster) healthy(web *web) error {
	for i, client := range c.clients {
		if !client.Ready() {
			return fmt.Errorf("client-%d is not connected", i)
		}
		for _, m := range c.cfg.Models {
			e, err := client.Model(m.Name, "")
			if err != nil {
				return err
			}
			if want := c.cfg.Backends * c.cfg.GPUsEach; e.GPUs != want {
				return fmt.Errorf("client-%d sees %d of %d GPUs", i, e.GPUs, want)
			}
		}
	}
	for _, t := range c.frontends {
		for _, m := range c.cfg.Models {
			_, _, listen := t.now()
			if err := web.ready(listen[0], m.Name); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
}

// close ends everything, the last started first, and tells what did not end well.
func (c *cluster) close() (wrong []error) {
	for _, client := range c.clients {
		if err := client.Close(); err != nil {
			wrong = append(wrong, err)
		}
	}
	for i := len(c.parts) - 1; i >= 0; i-- {
		t := c.parts[i]
		if p, _, _ := t.now(); p != nil {
			_ = p.signal(syscall.SIGCONT) // should it still be stopped
			if err := p.stop(); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", t.name, err))
			}
		}
	}
	for _, l := range c.links {
		l.close()
	}
	c.start.end()
	if err := os.RemoveAll(c.dir); err != nil {
		wrong = append(wrong, err)
	}
	return wrong
}
