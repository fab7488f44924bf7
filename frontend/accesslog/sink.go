package accesslog

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// bufferMax is how many bytes of lines wait for the file at most.
	bufferMax = 1 << 20
	// gather is how long the goroutine lets lines gather before it writes them in one call.
	gather = 20 * time.Millisecond
	// lookEvery is how often it is looked for whether the file was moved away.
	lookEvery = time.Second
)

// sink is a file behind a bounded buffer. Its Write never waits for the file.
type sink struct {
	path   string
	failed func(error)

	mu     sync.Mutex // Guards filling and closed.
	full   []byte
	lines  uint64 // in full
	closed bool

	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}

	written atomic.Uint64 // lines
	lost    atomic.Uint64

	// Owned by run.
	file   *os.File
	looked time.Time
	spare  []byte
	told   uint64 // of lost
	broken bool
	err    error // of the last write
}

func openSink(path string, failed func(error)) (*sink, error) {
	s := &sink{path: path, failed: failed, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	if s.failed == nil {
		s.failed = func(error) {}
	}
	if path == "-" {
		s.file = os.Stdout
	} else if err := s.open(); err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

func (s *sink) open() error {
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	s.file = file
	return nil
}

// Write takes a line, or counts it as lost where there is no room.
func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	if s.closed || len(s.full)+len(line) > bufferMax {
		s.mu.Unlock()
		s.lost.Add(1)
		return len(line), nil
	}
	s.full = append(s.full, line...)
	s.lines++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return len(line), nil
}

func (s *sink) run() {
	defer close(s.ended)
	for {
		select {
		case <-s.wake:
			select {
			case <-time.After(gather):
			case <-s.stop:
			}
			s.flush()
		case <-s.stop:
			s.flush()
			return
		}
	}
}

// flush writes what there is. Lines that the file does not take are lost.
func (s *sink) flush() {
	s.mu.Lock()
	lines, n := s.full, s.lines
	s.full, s.lines = s.spare[:0], 0
	s.mu.Unlock()
	s.spare = lines
	if lost := s.lost.Load(); lost != s.told && len(lines) > 0 {
		lines = fmt.Appendf(lines, "{\"time\":%q,\"lost_lines\":%d}\n", time.Now().Format(time.RFC3339Nano), lost-s.told)
		s.told = lost
	}
	if len(lines) == 0 {
		return
	}
	if s.path != "-" {
		s.follow()
	}
	err := error(nil)
	if s.file == nil {
		err = s.open()
	}
	if err == nil {
		_, err = s.file.Write(lines)
	}
	if s.err = err; err != nil {
		s.lost.Add(n)
	} else {
		s.written.Add(n)
	}
	if (err != nil) != s.broken {
		s.broken = err != nil
		s.failed(err)
	}
}

// follow opens the path again where what is open was moved away, as rotators of logs do.
func (s *sink) follow() {
	now := time.Now()
	if s.file == nil || now.Sub(s.looked) < lookEvery {
		return
	}
	s.looked = now
	ours, err := s.file.Stat()
	if err != nil {
		return
	}
	if there, err := os.Stat(s.path); err != nil || !os.SameFile(ours, there) {
		s.file.Close()
		s.file = nil
	}
}

func (s *sink) close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	close(s.stop)
	<-s.ended
	if s.path == "-" || s.file == nil {
		return s.err
	}
	if err := s.file.Close(); err != nil {
		return err
	}
	return s.err
}

var _ io.Writer = (*sink)(nil)

func linesDesc() *prometheus.Desc {
	return prometheus.NewDesc("symphony_access_log_lines_total", "Lines of the access log: written, or lost to the rate, a full buffer or a file that fails.", []string{"what"}, nil)
}

// Describe implements prometheus.Collector.
func (s *sink) Describe(to chan<- *prometheus.Desc) { to <- linesDesc() }

// Collect implements prometheus.Collector.
func (s *sink) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(linesDesc(), prometheus.CounterValue, float64(s.written.Load()), "written")
	to <- prometheus.MustNewConstMetric(linesDesc(), prometheus.CounterValue, float64(s.lost.Load()), "lost")
}
