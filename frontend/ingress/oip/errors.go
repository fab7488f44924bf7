package oip

import "fmt"

// Error is why a message is refused.
type Error struct {
	Field string // path of the field: inputs[0].shape[1]; "" is the whole body
	Msg   string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Msg
	}
	return e.Field + ": " + e.Msg
}

// Errorf makes an Error.
func Errorf(field, format string, args ...any) *Error {
	return &Error{Field: field, Msg: fmt.Sprintf(format, args...)}
}

// place is where the scanner is, kept as parts so that the path is only put
// together when something is wrong.
type place struct {
	section string // inputs, outputs, parameters; "" at the top
	index   int    // of the tensor; -1: none
	key     string
	element int // of shape or data; -1: none
}

func (p *place) String() string {
	s := p.section
	if p.index >= 0 {
		s = fmt.Sprintf("%s[%d]", s, p.index)
	}
	if p.key != "" {
		if s != "" {
			s += "."
		}
		s += p.key
	}
	if p.element >= 0 {
		s = fmt.Sprintf("%s[%d]", s, p.element)
	}
	return s
}
