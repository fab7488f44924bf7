package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/symphony-serving/symphony/bench/httpbench"
	"github.com/symphony-serving/symphony/bench/netbench"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The load and the echo are processes of this same binary. They talk with the command
// over their standard input and output, a line at a time:
//
//	generator: a Job as JSON         its Load as JSON, or {"Error": "..."}
//	echo:      an Echo as JSON       its address
//	           an empty line         its processor time in ns
//	both:      end of input          ends, at once
//
// The end of input is also what a command leaves that was killed.

// loadLine is a generator's answer.
type loadLine struct {
	*httpbench.Load
	Error string `json:",omitempty"`
}

// generatorPart is the load.
func generatorPart() error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // Ctrl-C reaches the whole group; the command decides
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	jobs := make(chan httpbench.Job)
	go func() { // reads on while a job runs: the end of input ends the job
		defer close(jobs)
		defer cancel()
		in := json.NewDecoder(os.Stdin)
		for {
			var j httpbench.Job
			if in.Decode(&j) != nil {
				return
			}
			jobs <- j
		}
	}()
	out := json.NewEncoder(os.Stdout)
	for j := range jobs {
		line := loadLine{}
		var err error
		if line.Load, err = httpbench.Generate(ctx, j); err != nil {
			line.Error = err.Error()
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// echoPart is the bare server.
func echoPart() error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var e httpbench.Echo
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- e.Serve(l) }()
	for fmt.Println(l.Addr()); ; {
		if _, err := in.ReadString('\n'); err != nil {
			break
		}
		used, err := netbench.ProcessCPU()
		if err != nil {
			return err
		}
		fmt.Println(int64(used))
	}
	return errors.Join(l.Close(), <-failed)
}

// httpParts are the processes that a run starts.
type httpParts struct {
	generator, echo *child
	address         string        // of the echo
	done            chan struct{} // lets the thread go that started them
}

// start starts both, and tells the echo what to say.
func (h *httpParts) start(e httpbench.Echo) error {
	h.done = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		// see child
		runtime.LockOSThread()
		var err, err2 error
		h.generator, err = startChild("bench", "http", "--part=generator")
		h.echo, err2 = startChild("bench", "http", "--part=echo")
		started <- errors.Join(err, err2)
		<-h.done
	}()
	err := <-started
	if err == nil {
		err = json.NewEncoder(h.echo.in).Encode(e)
	}
	if err == nil {
		h.address, err = h.echo.line("echo")
	}
	return err
}

func (h *httpParts) echoCPU() (mono.Dur, error) {
	if _, err := io.WriteString(h.echo.in, "\n"); err != nil {
		return 0, fmt.Errorf("echo: %w", err)
	}
	line, err := h.echo.line("echo")
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("echo: its processor time: %w", err)
	}
	return mono.Dur(ns), nil
}

// generate has the generator do a job. When ctx ends, the generator does, too.
func (h *httpParts) generate(ctx context.Context, j httpbench.Job) (*httpbench.Load, error) {
	defer context.AfterFunc(ctx, func() { h.generator.in.Close() })()
	if err := json.NewEncoder(h.generator.in).Encode(j); err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	text, err := h.generator.line("generator")
	if err != nil {
		return nil, err
	}
	var l loadLine
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	if l.Error != "" {
		return nil, errors.New(l.Error)
	}
	return l.Load, nil
}

// stop ends the parts.
func (h *httpParts) stop() error {
	if h.done == nil {
		return nil
	}
	defer close(h.done)
	var errs []error
	for _, p := range []*child{h.generator, h.echo} {
		if p != nil {
			errs = append(errs, p.end())
		}
	}
	return errors.Join(errs...)
}
