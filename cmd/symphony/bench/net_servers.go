package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/symphony-serving/symphony/bench/netbench"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The servers of a run are processes of this same binary: what the processor does
// for a server is then the server's. They talk with the client over their standard
// input and output:
//
//	server: its Offer, as one line of JSON
//	client: an empty line           server: its processor time in ns, as one line
//	client: end of input            server: ends
//
// The end of input is also what a client leaves that was killed.

// serve is the server's side.
func (c netCmd) serve() error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // Ctrl-C reaches the whole group; the client decides
	w, err := c.openWays()
	if err != nil {
		return err
	}
	s, err := netbench.Serve(netbench.ServeConfig{Index: c.Serve, Objects: c.Objects, Size: c.Size, Listen: "tcp:127.0.0.1:0"}, w.ways)
	if err != nil {
		return errors.Join(err, w.close())
	}
	err = json.NewEncoder(os.Stdout).Encode(s.Offer())
	for in := bufio.NewScanner(os.Stdin); err == nil && in.Scan(); {
		var used mono.Dur
		if used, err = netbench.ProcessCPU(); err == nil {
			_, err = fmt.Println(int64(used))
		}
	}
	return errors.Join(err, s.Close(), w.close())
}

// servers are the client's side.
type servers struct {
	all    []*child
	offers []netbench.Offer
	done   chan struct{} // lets the thread go that started them
}

// startServers starts them all, and waits for their offers.
func startServers(c netCmd, w *netWays) (*servers, error) {
	s := &servers{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// see child
		runtime.LockOSThread()
		started <- s.start(c, w)
		<-s.done
	}()
	err := <-started
	for i := 0; err == nil && i < len(s.all); i++ {
		err = s.greet(i)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *servers) start(c netCmd, w *netWays) error {
	args := []string{"bench", "net", "--poll=" + c.Poll, fmt.Sprintf("--objects=%d", c.Objects), fmt.Sprintf("--size=%d", c.Size)}
	if w.nic == nil {
		args = append(args, "--tcp-only")
	} else {
		args = append(args, "--device="+w.nic.Name())
	}
	for i := range c.Servers {
		p, err := startChild(append(args, fmt.Sprintf("--serve=%d", i))...)
		if err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		s.all = append(s.all, p)
	}
	return nil
}

// greet takes a server's offer.
func (s *servers) greet(i int) error {
	line, err := s.all[i].out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("server %d ended before it was ready (its own words are above): %w", i, err)
	}
	var o netbench.Offer
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("server %d: its offer: %w", i, err)
	}
	s.offers = append(s.offers, o)
	return nil
}

// cpu is the processor time of all servers. All are asked before the first is heard.
func (s *servers) cpu() (mono.Dur, error) {
	for i, p := range s.all {
		if _, err := io.WriteString(p.in, "\n"); err != nil {
			return 0, fmt.Errorf("server %d: %w", i, err)
		}
	}
	var sum mono.Dur
	for i, p := range s.all {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("server %d: %w", i, err)
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("server %d: its processor time: %w", i, err)
		}
		sum += mono.Dur(ns)
	}
	return sum, nil
}

// stop ends the servers.
func (s *servers) stop() error {
	defer close(s.done)
	var errs []error
	for _, p := range s.all {
		p.in.Close()
	}
	for i, p := range s.all {
		if err := p.end(); err != nil {
			errs = append(errs, fmt.Errorf("server %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}
