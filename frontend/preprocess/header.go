package preprocess

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
)

// Header is what an encoded image says of itself before anything is decoded.
type Header struct {
	Width, Height int
	Format        Format
	Bytes         int64 // that decoding takes
}

// Format is a kind of encoding, as far as its decoding costs something of its own.
type Format uint8

// The formats that are decoded.
const (
	PNG Format = iota
	JPEG
	ProgressiveJPEG // keeps all coefficients, four bytes each, until its last scan
	Formats         // how many there are
)

func (f Format) String() string {
	return [...]string{"PNG", "JPEG", "progressive JPEG", "image"}[min(f, Formats)]
}

// Pixels is how many the image has.
func (h *Header) Pixels() int64 { return int64(h.Width) * int64(h.Height) }

// ReadHeader reads the header. An image whose size is not the one that the decoder will
// see is refused: what is bounded by the header is bounded.
func ReadHeader(encoded []byte) (Header, error) {
	cfg, _, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return Header{}, fmt.Errorf("%w: neither PNG nor JPEG: %w", ErrImage, err)
	}
	h, ok := Header{}, false
	if bytes.HasPrefix(encoded, []byte("\x89PNG")) {
		h, ok = pngHeader(encoded)
	} else {
		h, ok = jpegHeader(encoded)
	}
	if !ok || h.Width != cfg.Width || h.Height != cfg.Height || h.Width < 1 || h.Height < 1 {
		return Header{}, fmt.Errorf("%w: its header is damaged", ErrImage)
	}
	return h, nil
}

// pngHeader reads IHDR, and whether there is a tRNS, which makes grey pixels four wide.
func pngHeader(b []byte) (h Header, ok bool) {
	const signature, chunk = 8, 12 // a chunk: length, name, data, sum
	if len(b) < signature+chunk+13 {
		return h, false
	}
	h = Header{Format: PNG, Width: int(binary.BigEndian.Uint32(b[16:])), Height: int(binary.BigEndian.Uint32(b[20:]))}
	depth, colour, interlaced := b[24], b[25], b[28] != 0
	transparent := false
	for rest := b[signature:]; len(rest) >= chunk; {
		n := int64(binary.BigEndian.Uint32(rest))
		name := string(rest[4:8])
		if transparent = transparent || name == "tRNS"; name == "IDAT" || n+chunk > int64(len(rest)) {
			break
		}
		rest = rest[n+chunk:]
	}
	each := int64(4)
	switch {
	case colour == 3, colour == 0 && !transparent: // palette, grey
		each = 1
	}
	if depth == 16 {
		each *= 2
	}
	h.Bytes = h.Pixels() * each
	if interlaced { // its passes are images of their own, and as large together
		h.Bytes *= 2
	}
	return h, true
}

// jpegHeader walks the segments before the first scan as the decoder does.
func jpegHeader(b []byte) (h Header, ok bool) {
	var adobe byte = 1 // the colour transform that APP14 names; 0: none, so RGB
	var components []byte
	for i := 2; i+4 <= len(b); {
		if b[i] != 0xff || b[i+1] == 0 { // stray bytes
			i++
			continue
		}
		marker := b[i+1]
		switch {
		case marker == 0xff: // fill
			i++
			continue
		case marker >= 0xd0 && marker <= 0xd7: // restart: no length
			i += 2
			continue
		case marker == 0xd9 || marker == 0xda: // end, scan
			return h.jpegBytes(components, adobe == 0)
		}
		n := int(binary.BigEndian.Uint16(b[i+2:]))
		if n < 2 || i+2+n > len(b) {
			return h, false
		}
		data := b[i+4 : i+2+n]
		switch {
		case marker >= 0xc0 && marker <= 0xc2 && len(data) >= 9:
			h.Height, h.Width = int(binary.BigEndian.Uint16(data[1:])), int(binary.BigEndian.Uint16(data[3:]))
			h.Format, components = JPEG, data[6:]
			if marker == 0xc2 {
				h.Format = ProgressiveJPEG
			}
		case marker == 0xee && len(data) >= 12 && string(data[:5]) == "Adobe":
			adobe = data[11]
		}
		i += 2 + n
	}
	return h.jpegBytes(components, adobe == 0)
}

// jpegBytes counts the samples, whose blocks are whole, and what they are turned into.
func (h Header) jpegBytes(components []byte, rgb bool) (Header, bool) {
	n := len(components) / 3
	if n == 0 {
		return h, false
	}
	across, down := 1, 1 // blocks of a unit, as the first component has them
	if n > 1 {
		across, down = int(components[1]>>4), int(components[1]&15)
	}
	if across < 1 || down < 1 {
		return h, false
	}
	units := int64((h.Width+8*across-1)/(8*across)) * int64((h.Height+8*down-1)/(8*down))
	blocks := int64(1)
	if n > 1 {
		blocks = 0
		for i := range n {
			blocks += int64(components[3*i+1]>>4) * int64(components[3*i+1]&15)
		}
	}
	h.Bytes = units * blocks * 64
	if h.Format == ProgressiveJPEG {
		h.Bytes *= 5
	}
	if n == 4 || n == 3 && (rgb || components[0] == 'R' && components[3] == 'G' && components[6] == 'B') {
		h.Bytes += 4 * h.Pixels()
	}
	return h, true
}
