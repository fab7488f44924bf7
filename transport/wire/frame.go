package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Errors of decoding. All of them mean that the peer broke the protocol.
var (
	ErrMagic    = errors.New("not a Symphony frame")
	ErrVersion  = errors.New("frame of another protocol version")
	ErrChecksum = errors.New("frame's checksum is wrong")
	ErrLength   = errors.New("frame's length is out of bounds")
	ErrShort    = errors.New("message is shorter than its layout")
	ErrValue    = errors.New("message has a value out of bounds")
)

const magic = 'S'

// Header is a decoded frame header.
type Header struct {
	Version uint8
	Kind    Kind
	Body    int
	Payload int
	crc     uint32
}

// Size is the frame's length without its payload.
func (h Header) Size() int { return HeaderSize + h.Body }

// begin appends room for a header; end fills it when the body is behind it.
func begin(dst []byte) []byte {
	return append(dst, make([]byte, HeaderSize)...)
}

// end completes the frame that began at start in dst.
func end(dst []byte, start int, kind Kind, payload int) []byte {
	h := dst[start : start+HeaderSize]
	h[0], h[1], h[2], h[3] = magic, Version, byte(kind), 0
	binary.LittleEndian.PutUint32(h[4:], uint32(len(dst)-start-HeaderSize))
	binary.LittleEndian.PutUint32(h[8:], uint32(payload))
	binary.LittleEndian.PutUint32(h[12:], checksum(h[:12], dst[start+HeaderSize:]))
	return dst
}

// checksum is crc32c, which amd64 and arm64 have in hardware. MakeTable
// returns the package's one table; it does not build one.
func checksum(header, body []byte) uint32 {
	t := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, t, header), t, body)
}

// ParseHeader reads the header at the start of b (at least HeaderSize bytes)
// and checks magic, version and lengths. payloadMax bounds the payload.
// The checksum is Verify's, once the body is there.
//
// The header's layout and Reject's are the same in every version: with
// ErrVersion the header is filled, so that a Reject of another version can be
// read and told to people.
func ParseHeader(b []byte, payloadMax int) (Header, error) {
	if b[0] != magic {
		return Header{}, fmt.Errorf("%w: it begins with %q", ErrMagic, printable(b[:4]))
	}
	h := Header{Version: b[1], Kind: Kind(b[2]), crc: binary.LittleEndian.Uint32(b[12:])}
	body, payload := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	if body > BodyMax || payload > uint32(max(0, min(payloadMax, PayloadMax))) {
		return Header{}, fmt.Errorf("%w: body %d of at most %d, payload %d of at most %d", ErrLength, body, BodyMax, payload, payloadMax)
	}
	h.Body, h.Payload = int(body), int(payload)
	if h.Version != Version {
		return h, fmt.Errorf("%w: it is %d, ours is %d", ErrVersion, h.Version, Version)
	}
	return h, nil
}

// Scan looks at the front of a stream. It returns the first frame's header
// once header and body are there and verified (the body is then
// buf[HeaderSize:h.Size()], its payload begins at h.Size()), or else need > 0:
// how long buf must be at least before it pays to look again.
func Scan(buf []byte, payloadMax int) (h Header, need int, err error) {
	if len(buf) < HeaderSize {
		return Header{}, HeaderSize, nil
	}
	if h, err = ParseHeader(buf, payloadMax); err != nil {
		return h, 0, err
	}
	if len(buf) < h.Size() {
		return h, h.Size(), nil
	}
	return h, 0, h.Verify(buf)
}

// Count is the number of frames that stand whole, each without a payload, one
// behind the other in b; ok is false when anything else does. It trusts the
// checksums: b was appended by this process.
func Count(b []byte) (n int, ok bool) {
	for len(b) >= HeaderSize {
		h, err := ParseHeader(b, 0)
		if err != nil || len(b) < h.Size() {
			return n, false
		}
		b = b[h.Size():]
		n++
	}
	return n, len(b) == 0 && n > 0
}

// Verify checks the checksum; frame is the header and the body.
func (h Header) Verify(frame []byte) error {
	if checksum(frame[:12], frame[HeaderSize:h.Size()]) != h.crc {
		return fmt.Errorf("%w (kind %d, body %d bytes)", ErrChecksum, h.Kind, h.Body)
	}
	return nil
}

// printable shows foreign bytes in an error without breaking a terminal.
func printable(b []byte) string {
	out := make([]byte, len(b))
	for i, c := range b {
		if c < ' ' || c > '~' {
			c = '.'
		}
		out[i] = c
	}
	return string(out)
}
