package bench

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/frontend/inflight"
	"github.com/symphony-serving/symphony/transport"
)

// loadMost is the longest span of load: a week.
const loadMost = 7 * 24 * time.Hour

// check refuses what cannot be offered.
func (c loadCmd) check() error {
	if (len(c.Scheduler) == 0) == (c.URL == "") {
		return errors.New("give --scheduler (through the Go client) or --url (over HTTP), one of them")
	}
	if err := c.checkAddresses(); err != nil {
		return err
	}
	if _, _, err := c.arrivals(); err != nil {
		return err
	}
	if c.URL == "" && len(c.Input) > 0 {
		return errors.New("--input is about a server over HTTP: give --url")
	}
	if c.Replay != "" && !(c.Speed >= 0.001 && c.Speed <= 1000) {
		return fmt.Errorf("--speed: %g, must be 0.001 to 1000", c.Speed)
	}
	if c.Replay == "" && c.Speed != 1 {
		return errors.New("--speed is of a recording: give --replay, or --rate for made arrivals")
	}
	if c.SLO < 0 {
		return fmt.Errorf("--slo: %v, must not be negative", c.SLO)
	}
	if err := checkInts(intFlag{"outstanding", c.Outstanding, 1, inflight.SlotsMax}, intFlag{"senders", c.Senders, 1, 1 << 14}); err != nil {
		return err
	}
	if err := checkBounds(bounded[time.Duration]{"duration", c.Duration, 10 * time.Millisecond, loadMost}, bounded[time.Duration]{"warmup", c.Warmup, 0, loadMost},
		bounded[time.Duration]{"margin", c.margin(), 0, time.Minute}); err != nil {
		return err
	}
	return cli.CheckWritable("json", c.JSON)
}

// checkAddresses refuses what lacks its scheme: it would be dialled for seconds, or
// missed without a word.
func (c loadCmd) checkAddresses() error {
	var all []string
	for _, group := range c.Scheduler {
		all = append(all, transport.SplitGroup(group)...)
	}
	for i, a := range all {
		address, ok := strings.CutPrefix(a, "tcp:")
		if _, port, err := net.SplitHostPort(address); !ok || err != nil || port == "" {
			return fmt.Errorf("--scheduler: %q is no address of a scheduler: write tcp:HOST:PORT, with + between those of a group", a)
		}
		if slices.Index(all, a) != i {
			return fmt.Errorf("--scheduler: %q is there twice", a)
		}
	}
	for _, flag := range [][2]string{{"url", c.URL}, {"metrics", c.Metrics}} {
		if u, err := url.Parse(flag[1]); flag[1] != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return fmt.Errorf("--%s: %q is no address of a server: write http://HOST:PORT", flag[0], flag[1])
		}
		if u, err := url.Parse(flag[1]); flag[0] == "url" && err == nil && (u.RawQuery != "" || u.Fragment != "") {
			return fmt.Errorf("--url: %q has a query or a fragment, which no request would carry: write http://HOST:PORT", flag[1])
		}
	}
	return nil
}

// arrivals reads --arrivals, which symphony sim writes alike.
func (c loadCmd) arrivals() (p workload.Process, shape float64, err error) {
	switch p = workload.Process(c.Arrivals); p {
	case workload.Poisson, workload.Uniform, workload.Constant:
		return p, 0, nil
	}
	text, ok := strings.CutPrefix(c.Arrivals, "gamma:")
	if shape, err = strconv.ParseFloat(text, 64); !ok || err != nil || !(shape >= 0.01 && shape <= 100) {
		return "", 0, fmt.Errorf("--arrivals: %q, must be poisson, gamma:SHAPE with a shape of 0.01 to 100, uniform or constant", c.Arrivals)
	}
	return workload.Gamma, shape, nil
}
