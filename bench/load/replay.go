package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Budgets is an arrival process that also says how much time the request of its last Next has; 0: its
// model's SLO.
type Budgets interface {
	Arrivals
	Budget() mono.Dur
}

// Replay plays a recording (package frontend/recording): each request when it came, for its model, with the time
// that its client gave it. A request of several items is so many, at a time. Any trace of lines
// `timestamp,model` in seconds will do.
//
// It reads as it goes. What is wrong with a line ends it: after the last Next, ask Err.
type Replay struct {
	lines *recorded
	index map[string]int // of what is played; requests of other models are left out
	speed float64
	last  int64 // ns
	left  int   // items of now that are to come
	now   recordedRequest
	begun bool
	err   error
}

// NewReplay plays r, called name in errors, speed times as fast (0: as it was). index are the models' numbers.
func NewReplay(r io.Reader, name string, index map[string]int, speed float64) *Replay {
	if speed == 0 {
		speed = 1
	}
	return &Replay{lines: newRecorded(r, name), index: index, speed: speed}
}

// Next implements Arrivals. At the end the gap is longer than any run.
func (p *Replay) Next() (gap mono.Dur, model int) {
	if p.left > 0 {
		p.left--
		return 0, p.index[p.now.model]
	}
	for {
		r, ok, err := p.lines.next()
		if err != nil || !ok {
			p.err = err
			return mono.Dur(mono.Never), 0
		}
		if !p.begun {
			p.begun, p.last = true, r.at
		}
		if _, played := p.index[r.model]; !played {
			continue
		}
		gap = mono.Dur(float64(r.at-p.last) / p.speed)
		p.now, p.last, p.left = r, r.at, r.items-1
		return gap, p.index[r.model]
	}
}

// Budget implements Budgets.
func (p *Replay) Budget() mono.Dur { return p.now.timeout }

// Err is why a recording ended early; nil: it did not.
func (p *Replay) Err() error { return p.err }

// Recorded is what a pass over a recording tells.
type Recorded struct {
	Requests int64            // items of batches count
	Span     mono.Dur         // first to last
	Models   map[string]int64 // requests of each
}

// recordedModelsMax bounds Recorded.Models.
const recordedModelsMax = 100_000

// Measure reads a recording to its end, and checks each line.
func Measure(r io.Reader, name string) (Recorded, error) {
	out := Recorded{Models: map[string]int64{}}
	lines := newRecorded(r, name)
	first, last := int64(-1), int64(0)
	for {
		q, ok, err := lines.next()
		if err != nil {
			return out, err
		}
		if !ok {
			break
		}
		if first < 0 {
			first = q.at
		}
		last = q.at
		out.Requests += int64(q.items)
		if out.Models[q.model] += int64(q.items); len(out.Models) > recordedModelsMax {
			return out, lines.bad("more than %d models", recordedModelsMax)
		}
	}
	if out.Requests == 0 {
		return out, fmt.Errorf("%s: no requests in it", lines.name)
	}
	out.Span = mono.Dur(last - first)
	return out, nil
}

// recordedRequest is a line.
type recordedRequest struct {
	at      int64 // ns
	model   string
	timeout mono.Dur
	items   int
}

// recorded reads lines.
type recorded struct {
	name string
	scan *bufio.Scanner
	n    int
	last int64
}

const (
	recordedLineMax = 64 << 10
	itemsMax        = 4096
	timeoutMost     = int64(3600e6) // us
)

func newRecorded(r io.Reader, name string) *recorded {
	l := &recorded{name: name, scan: bufio.NewScanner(r)}
	l.scan.Buffer(nil, recordedLineMax)
	return l
}

func (l *recorded) bad(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", l.name, l.n, fmt.Sprintf(format, args...))
}

// next reads a request; false at the end.
func (l *recorded) next() (r recordedRequest, ok bool, err error) {
	for l.scan.Scan() {
		l.n++
		line := strings.TrimSpace(l.scan.Text())
		if line == "" || l.n == 1 && (line[0] < '0' || line[0] > '9') { // the header
			continue
		}
		f := strings.Split(line, ",")
		if len(f) < 2 || f[1] == "" {
			return r, false, l.bad("%.100q: write timestamp,model,version,timeout_us,items", line)
		}
		r = recordedRequest{model: f[1], items: 1}
		if r.at, err = nanoseconds(f[0]); err != nil {
			return r, false, l.bad("timestamp %.40q: must be seconds, such as 12.345678", f[0])
		}
		if r.at < l.last {
			return r, false, l.bad("timestamp %s is before the one above it", f[0])
		}
		l.last = r.at
		if len(f) > 3 {
			us, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil || us < 0 || us > timeoutMost {
				return r, false, l.bad("timeout_us %.40q: must be 0 to %d", f[3], timeoutMost)
			}
			r.timeout = mono.Dur(us) * mono.Microsecond
		}
		if len(f) > 4 {
			if r.items, err = strconv.Atoi(f[4]); err != nil || r.items < 1 || r.items > itemsMax {
				return r, false, l.bad("items %.40q: must be 1 to %d", f[4], itemsMax)
			}
		}
		return r, true, nil
	}
	if err := l.scan.Err(); err != nil {
		l.n++
		return r, false, l.bad("%v", err)
	}
	return r, false, nil
}

var errSeconds = errors.New("no seconds")

// nanoseconds reads decimal seconds exactly: a float has not the digits for unix time.
func nanoseconds(text string) (int64, error) {
	whole, after, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < 0 || seconds > 9_200_000_000 || len(after) > 18 {
		return 0, errSeconds
	}
	if len(after) > 9 {
		after = after[:9]
	}
	fraction := int64(0)
	if after != "" {
		n, err := strconv.ParseUint(after, 10, 63)
		if err != nil {
			return 0, errSeconds
		}
		fraction = int64(n)
		for range 9 - len(after) {
			fraction *= 10
		}
	}
	return seconds*1e9 + fraction, nil
}
