package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// spread is a group of schedulers, backends and the test's own client, each on a host of its own.
type spread struct {
	*lab
	*cluster
	schedulers, backends []*space
	frontend             *space
	addresses            []string   // of the schedulers
	witnesses            []*process // the backends
	parts                []*process // all
}

// newSpread starts n schedulers, two backends that log each batch, and a client.
func newSpread(t *testing.T, n int, models ...emulated) *spread {
	t.Helper()
	s := &spread{lab: newLab(t), cluster: &cluster{t: t, repo: emulatedRepository(t, models...)}}
	for i := range n {
		s.schedulers = append(s.schedulers, s.host(fmt.Sprint("s", i), fmt.Sprint("10.99.0.", 1+i)))
		s.addresses = append(s.addresses, "tcp:"+s.schedulers[i].ip+":9000")
	}
	group := strings.Join(s.addresses, "+")
	s.address = strings.TrimPrefix(group, "tcp:")
	for i, at := range s.schedulers {
		s.parts = append(s.parts, at.start(at.name, "scheduler", "--listen", s.addresses[i], "--standby", strings.Join(s.addresses, ","), "--metrics", "127.0.0.1:9100"))
	}
	const devices = 2
	path := write(t, "log: {level: debug}\nbackend:\n  pools: [{device_type: emulated, kind: emulated, devices: %d}]\n", devices)
	for i := range 2 {
		at := s.host(fmt.Sprint("b", i), fmt.Sprint("10.99.0.", 101+i))
		s.backends = append(s.backends, at)
		s.witnesses = append(s.witnesses, at.start(at.name, "backend", "-c", path, "--scheduler", group, "--repository", s.repo, "--name", at.name, "--metrics", "127.0.0.1:9100"))
	}
	s.parts = append(s.parts, s.witnesses...)
	s.frontend = s.host("f", "10.99.0.201")
	var asked []string
	for _, m := range models {
		asked = append(asked, m.name)
	}
	s.dialWith(frontend.Options{Listen: "tcp:" + s.frontend.ip + ":4000", Network: &within{tcp.New(), s.frontend}, ArenaBytes: 64 << 20}, asked...)
	s.waitGPUs(models[0].name, devices*len(s.backends), time.Minute)
	return s
}

// hosts are all.
func (s *spread) hosts() []*space {
	return append(append(append([]*space(nil), s.schedulers...), s.backends...), s.frontend)
}

// within is a network as it is seen from a host of the lab.
type within struct {
	transport.Network
	at *space
}

// Dial dials from there.
func (w *within) Dial(ctx context.Context, address string, o transport.Options, h transport.Handler) (l transport.Link, err error) {
	if inside := w.at.inside(func() { l, err = w.Network.Dial(ctx, address, o, h) }); inside != nil {
		return nil, inside
	}
	return l, err
}

// Listen listens there.
func (w *within) Listen(address string, o transport.Options, accept func(peer wire.Hello) (transport.Handler, error)) (l transport.Listener, err error) {
	if inside := w.at.inside(func() { l, err = w.Network.Listen(address, o, accept) }); inside != nil {
		return nil, inside
	}
	return l, err
}

// scrape reads the metrics of the part on a host, from there: no cut is in between.
func (s *space) scrape() (string, error) {
	code, body, err := s.get("http://127.0.0.1:9100/metrics")
	if err == nil && code != 200 {
		err = fmt.Errorf("status %d", code)
	}
	if err != nil {
		return "", fmt.Errorf("metrics of %s: %w", s.name, err)
	}
	return body, nil
}

// converged says who leads, if one scheduler does alone and all backends obey it.
func (s *spread) converged() (leader int, err error) {
	leader = -1
	for i, at := range s.schedulers {
		body, err := at.scrape()
		if err != nil {
			return -1, err
		}
		switch leads, err := sum(body, "symphony_scheduler_leads"); {
		case err != nil:
			return -1, err
		case leads == 1 && leader >= 0:
			return -1, fmt.Errorf("%s and %s lead", s.schedulers[leader].name, at.name)
		case leads == 1:
			leader = i
		}
	}
	if leader < 0 {
		return -1, errors.New("nobody leads")
	}
	for _, at := range s.backends {
		body, err := at.scrape()
		if err != nil {
			return -1, err
		}
		if obeyed, err := sum(body, "symphony_backend_scheduler_obeyed", s.schedulers[leader].ip+":"); err != nil || obeyed != 1 {
			return -1, errors.Join(err, fmt.Errorf("%s leads, and %s does not obey it", s.schedulers[leader].name, at.name))
		}
	}
	return leader, nil
}

// linked says whether all backends are linked with all schedulers, and the schedulers with each other
// and with the frontend.
func (s *spread) linked() error {
	for _, at := range s.backends {
		body, err := at.scrape()
		if err != nil {
			return err
		}
		if n, err := sum(body, "symphony_backend_scheduler_linked"); err != nil || int(n) != len(s.schedulers) {
			return errors.Join(err, fmt.Errorf("%s is linked with %g schedulers", at.name, n))
		}
	}
	for _, at := range s.schedulers {
		body, err := at.scrape()
		if err != nil {
			return err
		}
		if n, err := sum(body, "symphony_scheduler_members"); err != nil || int(n) < len(s.backends)+1 {
			return errors.Join(err, fmt.Errorf("%s has %g members", at.name, n))
		}
	}
	return nil
}

// story is what the parts said last, but for batches, in order.
func (s *spread) story() string {
	var lines []string
	for _, p := range s.parts {
		n := len(lines)
		for _, line := range strings.Split(strings.TrimSpace(tail(p.log.String(), 4000)), "\n") {
			if !strings.Contains(line, " DBG ") {
				lines = append(lines, line[:min(len(line), 12)]+" "+p.name+line[min(len(line), 12):])
			}
		}
		lines = append(lines[:n], lines[max(n, len(lines)-20):]...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
