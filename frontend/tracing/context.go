package tracing

import "encoding/hex"

// Context is a request's place in its trace. Zero: it is not sampled.
type Context struct {
	Trace  [16]byte
	Span   [8]byte // of the request itself
	Parent [8]byte // the caller's; zero: there is none
}

// Sampled reports whether the request is told of.
func (c *Context) Sampled() bool { return c.Trace != [16]byte{} }

// traceparent is its length in the version that we write, 00.
const traceparent = 55

// parse reads W3C's traceparent. Later versions are read as far as ours goes, as the
// recommendation has it.
func parse(text []byte) (c Context, sampled, ok bool) {
	if len(text) < traceparent || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}, false, false
	}
	var version, flags [1]byte
	if !unhex(version[:], text[:2]) || version[0] == 0xff || !unhex(c.Trace[:], text[3:35]) || !unhex(c.Parent[:], text[36:52]) || !unhex(flags[:], text[53:55]) {
		return Context{}, false, false
	}
	if version[0] == 0 && len(text) > traceparent || len(text) > traceparent && text[traceparent] != '-' {
		return Context{}, false, false
	}
	if c.Trace == [16]byte{} || c.Parent == [8]byte{} {
		return Context{}, false, false
	}
	return c, flags[0]&1 != 0, true
}

// unhex reads lower-case digits only: others are no traceparent.
func unhex(to, digits []byte) bool {
	for i := range to {
		high, ok1 := digit(digits[2*i])
		low, ok2 := digit(digits[2*i+1])
		if !ok1 || !ok2 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// AppendTraceparent writes the context for whoever is told of it: a server that is asked next, or
// the client that asked.
func (c *Context) AppendTraceparent(dst []byte) []byte {
	dst = append(dst, "00-"...)
	dst = append(hex.AppendEncode(dst, c.Trace[:]), '-')
	return append(hex.AppendEncode(dst, c.Span[:]), "-01"...)
}
