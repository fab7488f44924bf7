// Package recording writes down which requests came when: a trace to be replayed, by symphony bench
// load --replay against a running system, or by symphony sim --trace.
//
//	timestamp,model,version,timeout_us,items
//	1763917000.123456,digits-cnn,1,20000,1
//
// timestamp: unix seconds at which the request went to its scheduler; timeout_us: what its client gave it, 0: the
// model's SLO; items: of its batch. Inputs are not written down: they are their owners', and large.
//
// # Invariants
//
//  1. Timestamps do not decrease, whatever the host's clock does.
//  2. No request waits for the file; what is lost is counted. A recording ends at its size.
//  3. A recording that is there goes on, behind its last whole line: a restart costs what came meanwhile.
//  4. One process at a time writes a recording: two would tell times that go back and forth.
package recording

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/frontend/linefile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Header is the first line.
const Header = "timestamp,model,version,timeout_us,items\n"

// ErrFull is what Failed is told when a recording has reached its size.
var ErrFull = errors.New("the recording has reached its size: nothing more is recorded")

// Config of a Recorder. Path is required.
type Config struct {
	Path    string // of a new file, or of a recording to go on with
	Max     int64  // bytes; 0: 1 GiB
	Failed  func(error)
	Metrics prometheus.Registerer // may be nil
}

// Recorder is safe for concurrent use.
type Recorder struct {
	cfg  Config // Immutable, as are file, base and from.
	file *linefile.File
	base int64     // unix nanoseconds
	from mono.Time // the same instant

	mu    sync.Mutex // Guards what follows.
	line  []byte
	bytes int64
	full  bool
}

// Open begins a recording, or goes on with it. A file that something else has written is an error.
func Open(cfg Config) (*Recorder, error) {
	if cfg.Max == 0 {
		cfg.Max = 1 << 30
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	var size, last int64
	begun := false
	f, err := linefile.Open(linefile.Options{Path: cfg.Path, Failed: cfg.Failed, Head: []byte(Header), Opened: func(file *os.File) (err error) {
		if err := own(file); err != nil || begun { // a file that follows, after a rotation, is new
			return err
		}
		begun = true
		size, last, err = resume(cfg.Path)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	r := &Recorder{cfg: cfg, file: f, base: max(time.Now().UnixNano(), last), from: mono.Now(), bytes: max(size, int64(len(Header)))}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register((*metrics)(r)); err != nil {
			f.Close()
			return nil, fmt.Errorf("recording: %w", err)
		}
	}
	return r, nil
}

// Add writes down a request that goes to its scheduler now. timeout 0 is the model's SLO.
func (r *Recorder) Add(model, version string, timeout time.Duration, items int) {
	if strings.ContainsAny(model+version, ",\"\r\n") { // the format has no way to write it
		r.file.Lose(1)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.base + int64(mono.Now().Sub(r.from)) // read under the lock: lines are in the order of their times
	b := strconv.AppendInt(r.line[:0], at/1e9, 10)
	b = append(b, '.')
	micros := strconv.AppendInt(nil, 1e6+at%1e9/1e3, 10)
	b = append(b, micros[1:]...)
	b = append(append(append(append(b, ','), model...), ','), version...)
	b = strconv.AppendInt(append(b, ','), timeout.Microseconds(), 10)
	b = append(strconv.AppendInt(append(b, ','), int64(items), 10), '\n')
	r.line = b
	if r.full || r.bytes+int64(len(b)) > r.cfg.Max {
		r.file.Lose(1)
		if !r.full {
			r.full = true
			r.cfg.Failed(ErrFull)
		}
		return
	}
	r.bytes += int64(len(b))
	_, _ = r.file.Write(b)
}

// Close ends the recording.
func (r *Recorder) Close() error {
	if r.cfg.Metrics != nil {
		r.cfg.Metrics.Unregister((*metrics)(r))
	}
	return r.file.Close()
}

// metrics collects the counts at each scrape.
type metrics Recorder

func recordedDesc() *prometheus.Desc {
	return prometheus.NewDesc("symphony_recorded_requests_total", "Requests of the recording: written, or lost to its size, a full buffer, a file that fails, or a name that it cannot hold.", []string{"what"}, nil)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) { to <- recordedDesc() }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	written, lost := m.file.Counts()
	to <- prometheus.MustNewConstMetric(recordedDesc(), prometheus.CounterValue, float64(written), "written")
	to <- prometheus.MustNewConstMetric(recordedDesc(), prometheus.CounterValue, float64(lost), "lost")
}
