// Package accesslog writes a line of JSON for requests that were answered, for machines that read
// logs. It is bounded in every way, and costs a request no time:
//
//	Tell --> share --> rate --> encode --> buffer --> goroutine --> file
//	         (good      lines    (pooled)  bounded;               looked for again when it was
//	          ones)     a second           full: lost             moved away
//
// # Invariants
//
//  1. Requests that were refused, failed or late are told whatever the share is; of the others
//     exactly the share, evenly, not by chance.
//  2. A disk that is slow or full costs lines, never the time of a request: who tells never waits
//     for a file.
//  3. Each line that the rate or the buffer cost is counted, and their number is told in a line of
//     its own as soon as one can be written.
//
// # Rejected
//
// A line for each request through the process's log: what people need to see would drown in it.
package accesslog

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/frontend/linefile"
)

// Config of a Log. Path is required.
type Config struct {
	Path  string  // of the file, which is appended to; "-" is standard output
	Share float64 // of the requests that were served in time, 0 to 1
	Rate  int     // lines a second, at most; 0: any number
	// Failed is told when the file cannot be written, and with nil when it can again.
	Failed  func(error)
	Metrics prometheus.Registerer // may be nil
}

// Entry is one request and its answer. Zero values are left out.
type Entry struct {
	Protocol string // "http", "grpc"
	Method   string // as the protocol has it
	Route    string // what was asked for, in one word: "infer"
	Model    string
	Version  string
	Client   string // host:port
	ID       []byte // the client's own, as it gave it
	Status   int    // of the protocol
	Reason   string // why there is no output; "" where there is one
	Refused  bool   // it has none
	Received int    // bytes of the body; negative: not told
	Sent     int    // likewise

	Total time.Duration // from the headers to the answer

	// Of what a backend answered.
	Request    uint64 // what scheduler and backend call it
	BatchSize  int
	GPU        int
	Preprocess time.Duration
	Queue      time.Duration
	Fetch      time.Duration
	Execute    time.Duration
	Reply      time.Duration
	Slack      time.Duration // negative: late

	Trace string // its trace's id, where it has one
}

// good: served in time.
func (e *Entry) good() bool { return !e.Refused && e.Slack >= 0 }

// Log is safe for concurrent use.
type Log struct {
	cfg  Config // Immutable, as are file and log.
	file *linefile.File
	log  zerolog.Logger

	seen   atomic.Uint64 // good requests
	second atomic.Int64  // unix time of the second that lines are counted in
	lines  atomic.Int64  // of that second
}

// Open opens the file and starts the goroutine that writes.
func Open(cfg Config) (*Log, error) {
	f, err := linefile.Open(linefile.Options{Path: cfg.Path, Failed: cfg.Failed, Tell: func(dst []byte, lost uint64) []byte {
		return fmt.Appendf(dst, "{\"time\":%q,\"lost_lines\":%d}\n", time.Now().Format(time.RFC3339Nano), lost)
	}})
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	l := &Log{cfg: cfg, file: f, log: zerolog.New(f)}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register((*logMetrics)(l)); err != nil {
			f.Close()
			return nil, fmt.Errorf("access log: %w", err)
		}
	}
	return l, nil
}

// Takes reports whether Tell would write an entry that is good or not, and counts it: for those to
// whom the entry's texts cost something. With it comes the promise to call Write where it is true.
func (l *Log) Takes(e *Entry) bool {
	if e.good() {
		n := l.seen.Add(1)
		if uint64(float64(n)*l.cfg.Share) == uint64(float64(n-1)*l.cfg.Share) {
			return false
		}
	}
	if l.cfg.Rate == 0 {
		return true
	}
	now := time.Now().Unix()
	if last := l.second.Load(); last != now && l.second.CompareAndSwap(last, now) {
		l.lines.Store(0)
	}
	if l.lines.Add(1) > int64(l.cfg.Rate) {
		l.file.Lose(1)
		return false
	}
	return true
}

// Tell writes the entry, if its turn comes. It does not keep it.
func (l *Log) Tell(e *Entry) {
	if l.Takes(e) {
		l.Write(e)
	}
}

// Write writes an entry that Takes has taken.
func (l *Log) Write(e *Entry) {
	line := l.log.Log().Time(zerolog.TimestampFieldName, time.Now()).Str("protocol", e.Protocol).Str("method", e.Method).Str("route", e.Route)
	text := func(key, value string) {
		if value != "" {
			line.Str(key, value)
		}
	}
	text("model", e.Model)
	text("version", e.Version)
	text("client", e.Client)
	if len(e.ID) > 0 {
		line.Bytes("id", e.ID[:min(len(e.ID), idMax)])
	}
	line.Int("status", e.Status)
	text("reason", e.Reason)
	if e.Received >= 0 {
		line.Int("received", e.Received)
	}
	if e.Sent >= 0 {
		line.Int("sent", e.Sent)
	}
	line.Int64("total_us", e.Total.Microseconds())
	if e.BatchSize > 0 {
		line.Uint64("request", e.Request).Int("batch_size", e.BatchSize).Int("gpu", e.GPU).
			Int64("preprocess_us", e.Preprocess.Microseconds()).Int64("queue_us", e.Queue.Microseconds()).Int64("fetch_us", e.Fetch.Microseconds()).
			Int64("execute_us", e.Execute.Microseconds()).Int64("reply_us", e.Reply.Microseconds()).Int64("slack_us", e.Slack.Microseconds())
	}
	text("trace_id", e.Trace)
	line.Send()
}

// idMax is how much of a client's id is told.
const idMax = 128

// Close writes what there is, and closes the file.
func (l *Log) Close() error {
	if l.cfg.Metrics != nil {
		l.cfg.Metrics.Unregister((*logMetrics)(l))
	}
	return l.file.Close()
}

// logMetrics collects the counts at each scrape.
type logMetrics Log

func linesDesc() *prometheus.Desc {
	return prometheus.NewDesc("symphony_access_log_lines_total", "Lines of the access log: written, or lost to the rate, a full buffer or a file that fails.", []string{"what"}, nil)
}

// Describe implements prometheus.Collector.
func (m *logMetrics) Describe(to chan<- *prometheus.Desc) { to <- linesDesc() }

// Collect implements prometheus.Collector.
func (m *logMetrics) Collect(to chan<- prometheus.Metric) {
	written, lost := m.file.Counts()
	to <- prometheus.MustNewConstMetric(linesDesc(), prometheus.CounterValue, float64(written), "written")
	to <- prometheus.MustNewConstMetric(linesDesc(), prometheus.CounterValue, float64(lost), "lost")
}
