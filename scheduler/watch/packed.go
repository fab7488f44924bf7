package watch

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Packed records are text: each number in digits of five bits, the lowest first, as signs of base64 (as base64 VLQ
// does in source maps). A sign's sixth bit says that there are more. That is some 60 signs for a batch of one
// and its report, where lines are 400 bytes, and it needs no second pass to be a JSON string. A record is
//
//	kind + 8 * pool; of a batch how many requests it has; and its words behind the head
//
// Most words are packed as what they are more than one that is known by then: two's complement, the sign in the
// lowest bit. The layouts below say for each word of a record than which one:
//
//	n  none             a  the record before's instant    t  this record's instant
//	p  the word before  b  the last batch's id            i  the last request's id
//
// All that is known begins with 0 where a text does: it can be read by itself. The page reads it likewise
// (packed.js).
//
// Rejected: base64 of words as they are, or of varints. The first has twice as many bytes to keep, copy
// and send, the second a second pass over all of them; a look cost the same or more.
const (
	digits        = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	digitBits     = 5
	digitMore     = 1 << digitBits
	digitsMost    = 13 // of 64 bits, and the last of them has lastDigit at most
	lastDigit     = 1<<(64-digitBits*(digitsMost-1)) - 1
	packedKindMax = 8

	batchLayout   = "abnnttpn"
	requestLayout = "intp"
	doneLayout    = "abnnttnn"
	dropLayout    = "ainnntttn"
	queueLayout   = "annntpt"
	loadLayout    = "annnnntp"
	loadedLayout  = "annnntp"
	evictLayout   = "annnnt"
)

func layoutOf(k Kind) string {
	switch k {
	case Batch:
		return batchLayout
	case Done:
		return doneLayout
	case Drop:
		return dropLayout
	case Queue:
		return queueLayout
	case Load:
		return loadLayout
	case Loaded:
		return loadedLayout
	case Evict:
		return evictLayout
	}
	return ""
}

// packing is what is known where a text of packed records has come to.
type packing struct{ at, batch, id uint64 }

// append packs a record.
func (p *packing) append(to []byte, record []uint64) []byte {
	to = slices.Grow(to, digitsMost*(len(record)+1))
	text, at := to[:cap(to)], len(to)
	k := RecordKind(record)
	at = putNumber(text, at, uint64(k)+packedKindMax*uint64(uint32(recordPool(record))))
	layout := layoutOf(k)
	switch k {
	case Batch:
		at = putNumber(text, at, uint64(len(record)-BatchWords)/RequestWords)
		at = p.putBatch(text, at, record)
	case Done:
		at = p.putDone(text, at, record)
	default:
		at = p.put(text, at, record[1:1+len(layout)], layout)
	}
	return text[:at]
}

// putBatch is put of batchLayout, and of requestLayout for each request; putDone that of doneLayout. Nearly all records are
// of these, and it is twice as fast to say what is done with each word as to look it up.
func (p *packing) putBatch(text []byte, at int, w []uint64) int {
	at = p.putHead(text, at, w)
	at = putSigned(text, at, w[5]-p.at)
	at = putSigned(text, at, w[6]-p.at)
	at = putSigned(text, at, w[7]-w[6])
	at = putSigned(text, at, w[8])
	for w = w[BatchWords:]; len(w) >= RequestWords; w = w[RequestWords:] {
		at = putSigned(text, at, w[0]-p.id)
		at = putSigned(text, at, w[1])
		at = putSigned(text, at, w[2]-p.at)
		at = putSigned(text, at, w[3]-w[2])
		p.id = w[0]
	}
	return at
}

func (p *packing) putDone(text []byte, at int, w []uint64) int {
	at = p.putHead(text, at, w)
	at = putSigned(text, at, w[5]-p.at)
	at = putSigned(text, at, w[6]-p.at)
	at = putSigned(text, at, w[7])
	return putSigned(text, at, w[8])
}

// putHead is put of abnn.
func (p *packing) putHead(text []byte, at int, w []uint64) int {
	at = putSigned(text, at, w[1]-p.at)
	at = putSigned(text, at, w[2]-p.batch)
	p.at, p.batch = w[1], w[2]
	at = putSigned(text, at, w[3])
	return putSigned(text, at, w[4])
}

// put packs words of a layout, and returns where the next goes.
func (p *packing) put(text []byte, at int, words []uint64, layout string) int {
	before := uint64(0)
	for i, w := range words {
		more := w
		switch layout[i] {
		case 'a':
			more, p.at = w-p.at, w
		case 'b':
			more, p.batch = w-p.batch, w
		case 'i':
			more, p.id = w-p.id, w
		case 't':
			more = w - p.at
		case 'p':
			more = w - before
		}
		before = w
		at = putSigned(text, at, more)
	}
	return at
}

// putSigned writes a number in two's complement, its sign last.
func putSigned(text []byte, at int, v uint64) int {
	return putNumber(text, at, v<<1^uint64(int64(v)>>63))
}

// putNumber writes a number, for which there is room.
func putNumber(text []byte, at int, v uint64) int {
	for v >= digitMore {
		text[at] = digits[v&(digitMore-1)|digitMore]
		v >>= digitBits
		at++
	}
	text[at] = digits[v&(digitMore-1)]
	return at + 1
}

var (
	errCutOff = errors.New("it ends within an event")
	errNumber = errors.New("it has a number of more than 64 bits")
)

// unpacking reads packed records.
type unpacking struct {
	packing
	text  []byte
	words []uint64 // of the record that was read last
	err   error
}

// next reads a record into words; false: the text ends, or err says what is wrong with it.
func (u *unpacking) next() bool {
	u.words = u.words[:0]
	if len(u.text) == 0 || u.err != nil {
		return false
	}
	head := u.number()
	k, pool, requests := Kind(head%packedKindMax), head/packedKindMax, uint64(0)
	layout := layoutOf(k)
	if k == Batch {
		requests = u.number()
	}
	switch {
	case u.err != nil:
	case layout == "":
		u.err = fmt.Errorf("it has an event of kind %d, which this version does not know", k)
	case pool > idMax:
		u.err = fmt.Errorf("pool %d: ids are below %d", pool, idMax)
	case requests > uint64(len(u.text)/RequestWords):
		u.err = errCutOff
	}
	if u.err != nil {
		return false
	}
	n := 1 + len(layout) + RequestWords*int(requests)
	u.words = append(u.words, RecordHead(k, n)|pool<<poolBit)
	u.layout(layout)
	for range requests {
		u.layout(requestLayout)
	}
	if u.err == nil {
		u.err = check(u.words)
	}
	return u.err == nil
}

// layout reads words of a layout.
func (u *unpacking) layout(layout string) {
	before := uint64(0)
	for i := range len(layout) {
		w := u.number()
		w = w>>1 ^ -(w & 1)
		switch layout[i] {
		case 'a':
			w += u.at
			u.at = w
		case 'b':
			w += u.batch
			u.batch = w
		case 'i':
			w += u.id
			u.id = w
		case 't':
			w += u.at
		case 'p':
			w += before
		}
		before = w
		u.words = append(u.words, w)
	}
}

// number reads one; 0 where there is none.
func (u *unpacking) number() (v uint64) {
	for i, c := range u.text {
		d := digit(c)
		switch {
		case d < 0:
			u.fail(fmt.Errorf("%q is no digit", c))
			return 0
		case i >= digitsMost || i == digitsMost-1 && d > lastDigit:
			u.fail(errNumber)
			return 0
		}
		v |= uint64(d&(digitMore-1)) << (digitBits * i)
		if d < digitMore {
			u.text = u.text[i+1:]
			return v
		}
	}
	u.fail(errCutOff)
	return 0
}

func (u *unpacking) fail(err error) {
	if u.err == nil {
		u.err = err
	}
	u.text = nil
}

// digit is a sign's value, -1 of another sign.
func digit(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '+':
		return 62
	case c == '/':
		return 63
	}
	return -1
}

// known is why, or nothing where a later version says it.
func known(why uint64) uint64 {
	if why >= uint64(whyEnd) {
		return uint64(WhyNone)
	}
	return why
}

// check refuses a record that is no event: its words are larger than what they are of.
func check(w []uint64) error {
	whole := func(v uint64) bool { return int64(v) == int64(int32(v)) }
	model, gpu, ok := uint64(0), uint64(0), true
	switch RecordKind(w) {
	case Batch:
		model, gpu, ok = w[3], w[4], whole(w[8])
		for i := BatchWords; i < len(w); i += RequestWords {
			ok = ok && w[i+1] <= math.MaxUint32
		}
	case Done:
		model, gpu, ok = w[3], w[4], whole(w[8])
	case Drop:
		model, ok = w[4], w[3] <= math.MaxUint32
		if w[5] >= uint64(wire.ReasonCount) {
			w[5] = uint64(wire.ReasonNone) // of a later version
		}
	case Queue:
		model, ok = w[2], whole(w[3]) && whole(w[4])
	case Load:
		model, gpu, ok = w[3], w[4], whole(w[6])
		w[5] = known(w[5])
	case Loaded:
		model, gpu = w[3], w[4]
		w[5] = known(w[5])
	case Evict:
		model, gpu = max(w[2], w[5]), w[3]
		w[4] = known(w[4])
	}
	if model > idMax || gpu > idMax {
		return fmt.Errorf("model %d or GPU %d: ids are below %d", model, gpu, idMax)
	}
	if !ok {
		return fmt.Errorf("a %v has a size or a frontend of more than 32 bits", RecordKind(w))
	}
	return nil
}
