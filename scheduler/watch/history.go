package watch

import (
	"bytes"

	"github.com/symphony-serving/symphony/transport/mono"
)

// History keeps the last events, bounded by age and by bytes. They are kept as the text that they are told as, in
// pieces: as a rule a look's. Events are made of them when somebody asks. So there is nothing in it that a collector
// goes through, it grows without a copy of all, and what is forgotten is the next piece's memory.
type History struct {
	span   mono.Dur
	most   int
	pieces []piece // a ring
	first  int     // index of the oldest
	n      int
	open   bool    // the newest may grow
	known  packing // where that has come to
	spare  []piece // of those that were forgotten: their memory
	likely int     // bytes of records that a piece will have, going by the last one
	bytes  int     // of those that are closed
	words  []uint64

	next   uint64    // number of the next event
	from   mono.Time // all since then is here, but for what Missed tells
	begun  bool      // from is set
	forgot bool
	missed uint64
	last   mono.Time
}

// piece is events that were told one after the other: first lines of the surroundings, then packed records.
type piece struct {
	first    uint64 // number of the first event
	told     int    // events that are lines
	records  int
	missed   uint64 // events that they tell of as missed
	from, to mono.Time
	lines    []byte
	packed   []byte
}

const (
	// pieceBytes is the size of a piece, about; a look may have more than one.
	pieceBytes = 192 << 10
	// piecesOfSpan is how many pieces the span has, at least: the oldest is forgotten as a whole.
	piecesOfSpan = 64
	// sparesMost is how many forgotten pieces' memory is kept.
	sparesMost = 4
	// lineBytes and wordBytes are about what a line and a word take, for what is decided before.
	lineBytes, wordBytes = 150, 5
	pieceHead            = 150 // of a piece itself
)

// NewHistory keeps events for span, and no more than about so many bytes.
func NewHistory(span mono.Dur, bytes int) *History { return &History{span: span, most: bytes} }

// Add takes an event. Who tells events tells them about in order.
func (h *History) Add(e *Event) {
	if e.Kind.frequent() {
		h.words = e.appendRecord(h.words[:0])
		h.addRecord(h.words)
		return
	}
	p := h.room(e.At, lineBytes, true)
	p.lines = e.Append(p.lines)
	p.told++
	if e.Kind == Missed {
		p.missed += uint64(e.Size)
		h.missed += uint64(e.Size)
	}
	h.added(p, e.Kind, e.At)
}

// AddRecords takes frequent events.
func (h *History) AddRecords(words []uint64) {
	for record := range Records(words) {
		h.addRecord(record)
	}
}

func (h *History) addRecord(record []uint64) {
	at := recordAt(record)
	p := h.room(at, wordBytes*len(record), false)
	p.packed = h.known.append(p.packed, record)
	p.records++
	h.added(p, RecordKind(record), at)
}

// added counts an event that a piece has got.
func (h *History) added(p *piece, k Kind, at mono.Time) {
	if !h.forgot && k < Model && (!h.begun || at < h.from) {
		h.from, h.begun = at, true // surroundings may be told again, later than what they surround
	}
	p.from, p.to = min(p.from, at), max(p.to, at)
	h.last = max(h.last, at)
	h.next++
}

// room is the piece that an event of so many bytes goes to; a line goes before all records.
func (h *History) room(at mono.Time, bytes int, line bool) *piece {
	if h.open {
		p := h.at(h.n - 1)
		if p.size()+bytes <= min(pieceBytes, h.most/8) && at.Sub(p.from) <= h.span/piecesOfSpan && !(line && p.records > 0) {
			return p
		}
		h.Close()
	}
	if h.n == len(h.pieces) {
		h.grow()
	}
	h.n++
	h.open, h.known = true, packing{}
	p := h.at(h.n - 1)
	*p = piece{first: h.next, from: at, to: at}
	if last := len(h.spare) - 1; last >= 0 {
		p.lines, p.packed = h.spare[last].lines[:0], h.spare[last].packed[:0]
		h.spare = h.spare[:last]
	} else {
		p.packed = make([]byte, 0, h.likely)
	}
	return p
}

// Close ends a look: what is added from now on can be read without what was before, and what is too old is
// forgotten.
func (h *History) Close() {
	if !h.open {
		return
	}
	p := h.at(h.n - 1)
	h.open, h.likely = false, len(p.packed)+len(p.packed)/8
	h.bytes += p.memory()
	for h.n > 1 && (h.bytes > h.most || h.last.Sub(h.at(0).to) > h.span) {
		h.forget()
	}
}

func (h *History) grow() {
	pieces := make([]piece, max(64, 2*len(h.pieces)))
	for i := range h.n {
		pieces[i] = *h.at(i)
	}
	h.pieces, h.first = pieces, 0
}

func (h *History) forget() {
	p := h.at(0)
	h.missed -= p.missed
	h.bytes -= p.memory()
	h.from, h.forgot = max(h.from, p.to), true
	if len(h.spare) < sparesMost {
		h.spare = append(h.spare, *p)
	}
	*p = piece{}
	h.first = (h.first + 1) % len(h.pieces)
	h.n--
}

// at is the i-th piece. It is asked for with each record, and a division takes as long as a few words of it.
func (h *History) at(i int) *piece {
	if i += h.first; i >= len(h.pieces) {
		i -= len(h.pieces)
	}
	return &h.pieces[i]
}

func (p *piece) size() int { return len(p.lines) + len(p.packed) }

func (p *piece) memory() int { return cap(p.lines) + cap(p.packed) + pieceHead }

// end is the number of the event behind it.
func (p *piece) end() uint64 { return p.first + uint64(p.told+p.records) }

// First is the number of the oldest event: who reads in pieces knows by it what was forgotten
// between two of them. Numbers begin at 0, and with Clear again. Next is that of the next event.
func (h *History) First() uint64 {
	if h.n == 0 {
		return h.next
	}
	return h.at(0).first
}

// Next is the number of the next event.
func (h *History) Next() uint64 { return h.next }

// Len is how many events there are.
func (h *History) Len() int { return int(h.next - h.First()) }

// Since is the number of the event that begins the piece before which all are older than from, and an instant before
// that piece.
func (h *History) Since(from mono.Time) (number uint64, at mono.Time) {
	for i := range h.n {
		if p := h.at(i); p.to >= from {
			return p.first, p.from - 1
		}
	}
	return h.next, from
}

// From is the instant since which all that was told is here, To that of the newest event.
func (h *History) From() mono.Time { return h.from }

// To is the instant of the newest event.
func (h *History) To() mono.Time { return h.last }

// Missed is how many events of that time could not be told.
func (h *History) Missed() uint64 { return h.missed }

// Clear forgets everything, as when nobody looked for a while: what happened meanwhile is not known.
func (h *History) Clear() { *h = History{span: h.span, most: h.most} }

// Append appends the lines of the pieces from an event's on, each behind a prefix: the surroundings' as they are, and
// the frequent events packed.
func (h *History) Append(to []byte, from uint64, prefix string) []byte {
	for i := range h.n {
		p := h.at(i)
		if p.first < from {
			continue
		}
		for lines := p.lines; len(lines) > 0; {
			end := bytes.IndexByte(lines, '\n') + 1
			to = append(append(to, prefix...), lines[:end]...)
			lines = lines[end:]
		}
		if p.records > 0 {
			to = append(append(append(to, prefix...), packedHead...), p.packed...)
			to = append(to, packedTail...)
		}
	}
	return to
}

// AppendPlain appends the events from a number on, up to another's, as lines, each event one, until there are so many
// bytes, and returns the number of the next.
func (h *History) AppendPlain(to []byte, from, until uint64, most int) (doc []byte, next uint64) {
	var d decoder
	for i := range h.n {
		p := h.at(i)
		if p.end() <= from || p.first >= until {
			continue
		}
		from = max(from, p.first)
		events, end := d.decode(p, allKinds), min(p.end(), until)
		for ; from < end; from++ {
			if len(to) >= most {
				return to, from
			}
			if k := from - p.first; k < uint64(len(events)) {
				to = events[k].Append(to)
			}
		}
	}
	return to, from
}
