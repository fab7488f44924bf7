package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// cursor reads a body from front to back. After the first short read every
// further one yields zero and err stays.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n int) []byte {
	if len(c.b) < n {
		if c.err == nil {
			c.err = fmt.Errorf("%w: %d bytes left, %d wanted", ErrShort, len(c.b), n)
		}
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) instant(shift mono.Dur) mono.Time { return mono.Time(c.u64()).Add(shift) }
func (c *cursor) span() mono.Dur                   { return mono.Dur(c.u64()) }

func (c *cursor) slab() SlabRef {
	return SlabRef{Handle: SlabHandle(c.u64()), Address: c.u64(), RKey: c.u32(), Length: c.u32()}
}

func (c *cursor) reason() Reason {
	r := Reason(c.u16())
	if r >= reasonEnd {
		c.fail("reason %d", r)
	}
	return r
}

func (c *cursor) suspicion() Suspicion {
	s := Suspicion(c.u8())
	if s >= suspicionEnd {
		c.fail("suspicion %d", s)
	}
	return s
}

func (c *cursor) str(most int) string {
	n := int(c.u8())
	if n > most {
		c.fail("text of %d bytes, at most %d", n, most)
		return ""
	}
	return string(c.take(n))
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrValue, fmt.Sprintf(format, args...))
	}
}

// done is the error of the whole read. Bytes left over are the sender's
// newer fields of the same version: ignored.
func (c *cursor) done() error { return c.err }

func putU16(b []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(b, v) }
func putU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
func putU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func putSlab(b []byte, s SlabRef) []byte {
	b = putU64(putU64(b, uint64(s.Handle)), s.Address)
	return putU32(putU32(b, s.RKey), s.Length)
}

// putStr cuts what is too long: texts are for people.
func putStr(b []byte, s string, most int) []byte {
	if len(s) > most {
		s = s[:most]
	}
	return append(append(b, byte(len(s))), s...)
}
