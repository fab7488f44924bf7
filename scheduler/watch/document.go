package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// Format and Version name the document. Version rises when a reader of before would
	// understand a line wrongly.
	Format  = "schedule"
	Version = 1
	// LineMax bounds a line of a document.
	LineMax = 1 << 20
)

// ErrDocument is the cause when a document cannot be read.
var ErrDocument = errors.New("not a schedule that this version can read")

// Head is a document's first line.
type Head struct {
	Symphony string `json:"symphony"`
	Version  int    `json:"version"`
	Source   string `json:"source"` // "live", "file" or "sim"
	// Began is the origin of the events' clock, unix nanoseconds; 0: simulated.
	Began int64  `json:"began,omitempty"`
	Title string `json:"title,omitempty"`
}

// NewHead is the first line of a document of now.
func NewHead(source, title string, began int64) Head {
	return Head{Symphony: Format, Version: Version, Source: source, Began: began, Title: title}
}

// Append writes the line.
func (h Head) Append(to []byte) []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // plain fields: it cannot
	}
	return append(append(to, text...), '\n')
}

// ParseHead reads a document's first line.
func ParseHead(line []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(line, &h); err != nil || h.Symphony != Format {
		return h, fmt.Errorf("%w: its first line is not {\"symphony\":%q,...}", ErrDocument, Format)
	}
	if h.Version != Version {
		return h, fmt.Errorf("%w: it is of version %d, this symphony reads version %d", ErrDocument, h.Version, Version)
	}
	return h, nil
}

// Append writes the event as a line. Frequent kinds are written by hand: it is done for each
// batch while somebody looks.
func (e *Event) Append(to []byte) []byte {
	to = append(append(append(to, `{"e":"`...), e.Kind.String()...), `","t":`...)
	to = num(to, int64(e.At))
	to = field(to, `,"pool":`, int64(e.Pool))
	switch e.Kind {
	case Batch:
		to = field(e.batch(to), `,"due":`, int64(e.Due))
		to = field(field(field(to, `,"exec":`, int64(e.Exec)), `,"until":`, int64(e.Until)), `,"size":`, int64(e.Size))
		to = e.requests(to)
	case Done:
		to = field(field(e.batch(to), `,"exec":`, int64(e.Exec)), `,"until":`, int64(e.Until))
		to = field(field(to, `,"size":`, int64(e.Size)), `,"fetch":`, int64(e.Fetch))
	case Drop:
		to = field(to, `,"model":`, int64(e.Model))
		to = append(append(append(to, `,"request":"`...), e.Request.Key.String()...), `","reason":"`...)
		to = append(append(to, e.Reason.String()...), '"')
		to = field(field(to, `,"arrival":`, int64(e.Request.Arrival)), `,"came":`, int64(e.Request.Came))
		to = field(field(to, `,"deadline":`, int64(e.Request.Deadline)), `,"margin":`, int64(e.Margin))
	case Queue:
		to = field(field(to, `,"model":`, int64(e.Model)), `,"queued":`, int64(e.Queued))
		to = field(field(to, `,"size":`, int64(e.Size)), `,"exec":`, int64(e.Exec))
		to = field(field(to, `,"until":`, int64(e.Until)), `,"due":`, int64(e.Due))
	case Load, Loaded:
		to = append(strconv.AppendUint(append(to, `,"load":"`...), uint64(e.Batch), 16), '"')
		to = e.why(field(field(to, `,"model":`, int64(e.Model)), `,"gpu":`, int64(e.GPU)))
		if e.Kind == Load {
			to = field(to, `,"size":`, int64(e.Size))
		}
		to = field(field(to, `,"exec":`, int64(e.Exec)), `,"until":`, int64(e.Until))
	case Evict:
		to = e.why(field(field(to, `,"model":`, int64(e.Model)), `,"gpu":`, int64(e.GPU)))
		to = field(field(to, `,"for":`, int64(e.For)), `,"until":`, int64(e.Until))
	case Counts:
		to = e.counts(to)
	case Now:
	case Missed:
		to = field(to, `,"size":`, int64(e.Size))
	default:
		to = e.info(to)
	}
	return append(to, "}\n"...)
}

func (e *Event) batch(to []byte) []byte {
	to = append(strconv.AppendUint(append(to, `,"batch":"`...), uint64(e.Batch), 16), '"')
	return field(field(to, `,"model":`, int64(e.Model)), `,"gpu":`, int64(e.GPU))
}

func (e *Event) why(to []byte) []byte {
	return append(append(append(to, `,"why":"`...), e.Why.String()...), '"')
}

// requests are key, arrival and deadline one after the other.
func (e *Event) requests(to []byte) []byte {
	if len(e.Requests) == 0 {
		return to
	}
	to = append(to, `,"requests":[`...)
	for i := range e.Requests {
		r := &e.Requests[i]
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendUint(append(to, '"'), uint64(r.Key.Frontend), 10)
		to = strconv.AppendUint(append(to, '-'), uint64(r.Key.ID), 16)
		to = num(append(num(append(to, `",`...), int64(r.Arrival)), ','), int64(r.Deadline))
	}
	return append(to, ']')
}

// info are the fields of the surroundings.
func (e *Event) info(to []byte) []byte {
	to = field(field(to, `,"model":`, int64(e.Model)), `,"gpu":`, int64(e.GPU))
	text, err := json.Marshal(e.Info)
	if err != nil {
		text = []byte("{}") // a number that JSON has not, as of a need by no time at all
	}
	return append(append(to, `,"info":`...), text...)
}

// counts are as json.Marshal writes them, but for the order of the reasons: they come for each model four times a
// second.
func (e *Event) counts(to []byte) []byte {
	all, i := len(to), e.Info
	to = field(field(to, `,"model":`, int64(e.Model)), `,"gpu":`, int64(e.GPU))
	to = append(to, `,"info":`...)
	from := len(to)
	for _, f := range [...]struct {
		name string
		n    uint64
	}{{`,"came":`, i.Came}, {`,"served":`, i.Served}, {`,"late":`, i.Late}, {`,"warm":`, i.Warm}, {`,"cold":`, i.Cold}, {`,"loads":`, i.Loads}, {`,"held":`, uint64(max(0, i.Held))}} {
		if f.n > 0 {
			to = strconv.AppendUint(append(to, f.name...), f.n, 10)
		}
	}
	if i.Unmet != 0 {
		to = field(to, `,"unmet":`, int64(i.Unmet))
	}
	if len(i.Dropped) > 0 {
		to = append(to, `,"dropped":`...)
		list, known := len(to), 0
		for r := wire.Reason(0); int(r) < wire.ReasonCount; r++ {
			if n, ok := i.Dropped[r.String()]; ok {
				to = append(append(append(to, `,"`...), r.String()...), `":`...)
				to = strconv.AppendUint(to, n, 10)
				known++
			}
		}
		if known < len(i.Dropped) { // a file of a later version
			return e.info(to[:all])
		}
		to = object(to, list)
	}
	return object(to, from)
}

// object makes what follows from a place on, fields with a comma before each, an object.
func object(to []byte, from int) []byte {
	if len(to) == from {
		return append(to, "{}"...)
	}
	to[from] = '{'
	return append(to, '}')
}

func num(to []byte, v int64) []byte { return strconv.AppendInt(to, v, 10) }

// field appends a number behind its name, which is as it stands in the text: ,"size":
func field(to []byte, name string, v int64) []byte { return num(append(to, name...), v) }

// line is what an event may have, for reading.
type line struct {
	E        string          `json:"e"`
	T        mono.Time       `json:"t"`
	Pool     int32           `json:"pool"`
	Batch    string          `json:"batch"`
	Load     string          `json:"load"`
	Why      string          `json:"why"`
	For      wire.ModelID    `json:"for"`
	Model    wire.ModelID    `json:"model"`
	GPU      wire.GPUID      `json:"gpu"`
	Due      mono.Time       `json:"due"`
	Exec     mono.Time       `json:"exec"`
	Until    mono.Time       `json:"until"`
	Size     int32           `json:"size"`
	Queued   int32           `json:"queued"`
	Fetch    mono.Dur        `json:"fetch"`
	Margin   mono.Dur        `json:"margin"`
	Request  string          `json:"request"`
	Reason   string          `json:"reason"`
	Arrival  mono.Time       `json:"arrival"`
	Came     mono.Time       `json:"came"`
	Deadline mono.Time       `json:"deadline"`
	Requests json.RawMessage `json:"requests"`
	Info     *Info           `json:"info"`
	Records  string          `json:"records"` // packed
}

// Parse reads an event; ok is false for one of a kind that this version does not know, and for packed ones (Reader).
func Parse(text []byte) (e Event, ok bool, err error) {
	l, err := parseLine(text)
	if err != nil {
		return e, false, err
	}
	return l.event()
}

func parseLine(text []byte) (l line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return l, nil
}

// event is the line's; ok is false for one of a kind that this version does not know.
func (l *line) event() (e Event, ok bool, err error) {
	e = Event{Kind: kindOf(l.E), Pool: l.Pool, Model: l.Model, GPU: l.GPU, Size: l.Size, Queued: l.Queued, At: l.T,
		Due: l.Due, Exec: l.Exec, Until: l.Until, Fetch: l.Fetch, Margin: l.Margin, Info: l.Info}
	if max(l.Model, l.For) > idMax || l.GPU > idMax || l.Pool < 0 || l.Pool > idMax {
		return e, false, fmt.Errorf("%w: model %d, GPU %d or pool %d: ids are below %d", ErrDocument, l.Model, l.GPU, l.Pool, idMax)
	}
	switch e.Kind {
	case 0:
		return e, false, nil
	case Batch, Done:
		err = e.parseBatch(l)
	case Drop:
		e.Reason = reasonOf(l.Reason)
		e.Request = Request{Arrival: l.Arrival, Came: l.Came, Deadline: l.Deadline}
		e.Request.Key, err = ParseKey(l.Request)
	case Load, Loaded, Evict:
		err = e.parseLoad(l)
	case Queue, Missed, Now:
	default:
		if e.Info == nil {
			return e, false, fmt.Errorf("%w: a %v without info", ErrDocument, e.Kind)
		}
	}
	if err != nil {
		return e, false, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return e, true, nil
}

// idMax bounds ids of models, GPUs and pools: they index lists.
const idMax = 1 << 16

func (e *Event) parseLoad(l *line) error {
	e.Why, e.For = whyOf(l.Why), l.For
	if e.Kind == Evict {
		return nil
	}
	id, err := strconv.ParseUint(l.Load, 16, 64)
	if err != nil {
		return fmt.Errorf("load %q: %w", l.Load, err)
	}
	e.Batch = wire.BatchID(id)
	return nil
}

func (e *Event) parseBatch(l *line) error {
	id, err := strconv.ParseUint(l.Batch, 16, 64)
	if err != nil {
		return fmt.Errorf("batch %q: %w", l.Batch, err)
	}
	e.Batch = wire.BatchID(id)
	if len(l.Requests) == 0 {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(l.Requests, &list); err != nil || len(list)%3 != 0 {
		return fmt.Errorf("batch %q: its requests are not key, arrival and deadline each", l.Batch)
	}
	for i := 0; i < len(list); i += 3 {
		var r Request
		var key string
		err := errors.Join(json.Unmarshal(list[i], &key), json.Unmarshal(list[i+1], &r.Arrival), json.Unmarshal(list[i+2], &r.Deadline))
		if err == nil {
			r.Key, err = ParseKey(key)
		}
		if err != nil {
			return fmt.Errorf("batch %q: %w", l.Batch, err)
		}
		e.Requests = append(e.Requests, r)
	}
	return nil
}

func kindOf(name string) Kind {
	for k := Batch; k < kindEnd; k++ {
		if k.String() == name {
			return k
		}
	}
	return 0
}

func reasonOf(name string) wire.Reason {
	for r := wire.Reason(0); int(r) < wire.ReasonCount; r++ {
		if r.String() == name {
			return r
		}
	}
	return wire.ReasonNone
}
