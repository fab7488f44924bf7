package watch

import (
	"bytes"
	"fmt"
)

// kinds is a set of them.
type kinds uint32

const allKinds kinds = 1<<kindEnd - 1

func (k kinds) has(kind Kind) bool { return k&(1<<kind) != 0 }

// decoder makes events of what is kept. They are valid until the next piece.
type decoder struct {
	events   []Event
	requests []Request
	records  unpacking
}

// decode makes events of a piece, of some kinds: of many that come often a line need not be parsed.
func (d *decoder) decode(p *piece, of kinds) []Event {
	d.events, d.requests = d.events[:0], d.requests[:0]
	for lines := p.lines; len(lines) > 0; {
		end := bytes.IndexByte(lines, '\n') + 1
		if of.has(lineKind(lines[:end])) {
			if e, ok, err := Parse(lines[:end]); ok && err == nil { // they were written by Append
				d.events = append(d.events, e)
			}
		}
		lines = lines[end:]
	}
	_ = d.unpack(p.packed, of) // likewise
	return d.events
}

// lineKind is the kind of a line that Append wrote.
func lineKind(line []byte) Kind {
	name, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"e":"`)), []byte(`"`))
	return kindOf(string(name))
}

// unpack makes events of packed records.
func (d *decoder) unpack(text []byte, of kinds) error {
	u := &d.records
	u.packing, u.text, u.err = packing{}, text, nil
	for u.next() {
		if of.has(RecordKind(u.words)) {
			var e Event
			e, d.requests = eventOf(u.words, d.requests)
			d.events = append(d.events, e)
		}
	}
	return u.err
}

// Reader reads a document's lines behind its head.
type Reader struct{ decoder }

// A line of packed records.
const (
	packedName = "packed"
	packedHead = `{"e":"` + packedName + `","records":"`
	packedTail = "\"}\n"
)

// Line hands over the events of a line: none where this version does not know its kind, many of packed ones.
// They are valid until the next line.
func (r *Reader) Line(text []byte, take func(*Event)) error {
	l, err := parseLine(text)
	if err != nil {
		return err
	}
	if l.E == packedName {
		r.events, r.requests = r.events[:0], r.requests[:0]
		if err := r.unpack([]byte(l.Records), allKinds); err != nil {
			return fmt.Errorf("%w: packed events: %w", ErrDocument, err)
		}
		for i := range r.events {
			take(&r.events[i])
		}
		return nil
	}
	e, ok, err := l.event()
	if ok {
		take(&e)
	}
	return err
}
