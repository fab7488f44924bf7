package grpcin

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

var (
	errCut     = errors.New("the message ends in the middle of a field")
	errVarint  = errors.New("a number in the message has no end")
	errGroup   = errors.New("the message has a group, which this protocol knows none of")
	errTag     = errors.New("the message has a field without a valid number")
	errTensors = errors.New("more than 256 raw_input_contents")
)

// view is a piece of a message that lies in several buffers.
type view struct{ at, n int }

// scanner reads a message that lies in several buffers, front to back.
type scanner struct {
	data mem.BufferSlice
	now  []byte // what is left of the current buffer
	next int    // the one after it
	at   int    // bytes read
	left int    // bytes not read yet
}

func scan(data mem.BufferSlice) scanner { return scanner{data: data, left: data.Len()} }

// fill has something in now, while something is left.
func (s *scanner) fill() {
	for len(s.now) == 0 && s.left > 0 {
		s.now = s.data[s.next].ReadOnlyData()
		s.next++
	}
}

// varint reads a number.
func (s *scanner) varint() (uint64, error) {
	if s.fill(); len(s.now) > 0 && s.now[0] < 0x80 {
		v := uint64(s.now[0])
		s.skip(1)
		return v, nil
	}
	var v uint64
	for i := range 10 {
		if s.fill(); s.left == 0 {
			return 0, errCut
		}
		b := s.now[0]
		s.skip(1)
		if i == 9 && b > 1 {
			break
		}
		if v |= uint64(b&0x7f) << (7 * i); b < 0x80 {
			return v, nil
		}
	}
	return 0, errVarint
}

// skip passes n bytes; there are that many.
func (s *scanner) skip(n int) {
	s.at, s.left = s.at+n, s.left-n
	for n > len(s.now) {
		n -= len(s.now)
		s.now = s.data[s.next].ReadOnlyData()
		s.next++
	}
	s.now = s.now[n:]
}

// append reads n bytes to the end of dst; there are that many.
func (s *scanner) append(dst []byte, n int) []byte {
	for n > 0 {
		s.fill()
		k := min(n, len(s.now))
		dst = append(dst, s.now[:k]...)
		s.skip(k)
		n -= k
	}
	return dst
}

// split reads a ModelInferRequest: it appends to header all fields but raw_input_contents, and notes
// where those lie.
func split(data mem.BufferSlice, header []byte, raw []view) ([]byte, []view, error) {
	s := scan(data)
	for s.left > 0 {
		tag, err := s.varint()
		if err != nil {
			return header, raw, err
		}
		number, kind := protowire.DecodeTag(tag)
		if number < protowire.MinValidNumber {
			return header, raw, errTag
		}
		n := 0
		switch kind {
		case protowire.VarintType:
			v, err := s.varint()
			if err != nil {
				return header, raw, err
			}
			header = protowire.AppendVarint(protowire.AppendVarint(header, tag), v)
			continue
		case protowire.Fixed32Type:
			n = 4
		case protowire.Fixed64Type:
			n = 8
		case protowire.BytesType:
			v, err := s.varint()
			if err != nil {
				return header, raw, err
			}
			if v > uint64(s.left) {
				return header, raw, errCut
			}
			n = int(v)
		default:
			return header, raw, errGroup
		}
		if n > s.left {
			return header, raw, errCut
		}
		if number == fieldRaw && kind == protowire.BytesType {
			if len(raw) == tensorsMax {
				return header, raw, errTensors
			}
			raw = append(raw, view{s.at, n})
			s.skip(n)
			continue
		}
		header = protowire.AppendVarint(header, tag)
		if kind == protowire.BytesType {
			header = protowire.AppendVarint(header, uint64(n))
		}
		header = s.append(header, n)
	}
	return header, raw, nil
}

// copyView copies what the view from from on has to dst, as much as fits there.
func copyView(dst []byte, data mem.BufferSlice, v view, from int) {
	skip, left := v.at+from, min(len(dst), v.n-from)
	for _, b := range data {
		if left <= 0 {
			return
		}
		piece := b.ReadOnlyData()
		if skip >= len(piece) {
			skip -= len(piece)
			continue
		}
		n := copy(dst[:left], piece[skip:])
		dst, left, skip = dst[n:], left-n, 0
	}
}
