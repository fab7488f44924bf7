package oip

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON in place, once, from left to right.
type scanner struct {
	b     []byte
	i     int
	from  int // where b begins in the message: errors count from there
	depth int
	at    place
}

func (s *scanner) fail(format string, args ...any) error {
	return Errorf(s.at.String(), format, args...)
}

// unexpected says what is wrong at the present byte.
func (s *scanner) unexpected(want string) error {
	if s.i >= len(s.b) {
		return s.fail("the JSON ends early, at byte %d: %s expected", s.from+s.i, want)
	}
	r, _ := utf8.DecodeRune(s.b[s.i:])
	return s.fail("byte %d is %q: %s expected", s.from+s.i, r, want)
}

func (s *scanner) ws() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek is the next byte that is no space; 0 at the end.
func (s *scanner) peek() byte {
	s.ws()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// open enters an array or object.
func (s *scanner) open(c byte, want string) error {
	if s.peek() != c {
		return s.unexpected(want)
	}
	s.i++
	s.depth++
	if s.depth > DepthMax {
		return s.fail("the JSON is nested deeper than %d levels, at byte %d", DepthMax, s.from+s.i-1)
	}
	return nil
}

// more decides after a member or element: another one comes, or end closes.
func (s *scanner) more(end byte, want string) (bool, error) {
	switch s.peek() {
	case ',':
		s.i++
		return true, nil
	case end:
		s.i++
		s.depth--
		return false, nil
	}
	return false, s.unexpected(want)
}

// object calls member at each value, which it must read.
func (s *scanner) object(member func(key []byte) error) error {
	if err := s.open('{', "an object"); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.i++
		s.depth--
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.unexpected("a key in quotes")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.unexpected("':'")
		}
		s.i++
		before := s.at
		if err := member(key); err != nil {
			return err
		}
		s.at = before
		if again, err := s.more('}', "',' or '}'"); !again {
			return err
		}
	}
}

// array calls element at each value, which it must read.
func (s *scanner) array(element func(i int) error) error {
	if err := s.open('[', "an array"); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.i++
		s.depth--
		return nil
	}
	for i := 0; ; i++ {
		before := s.at
		if err := element(i); err != nil {
			return err
		}
		s.at = before
		if again, err := s.more(']', "',' or ']'"); !again {
			return err
		}
	}
}

// skip reads a value of any kind and checks its syntax.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip() })
	case c == '[':
		return s.array(func(int) error { return s.skip() })
	case c == '"':
		_, err := s.text()
		return err
	case c == 't' || c == 'f':
		_, err := s.boolean()
		return err
	case c == 'n':
		return s.word("null")
	}
	_, err := s.number()
	return err
}

// data skips over a tensor's array and returns it undecoded. Numbers are not
// looked at: brackets are found with the vector instructions of package bytes.
func (s *scanner) data() ([]byte, error) {
	if s.peek() != '[' {
		return nil, s.unexpected("an array")
	}
	from, level, end := s.i, 0, -1
	for {
		if end < s.i { // else it still is the next bracket: searching anew would make strings quadratic
			n := bytes.IndexByte(s.b[s.i:], ']')
			if n < 0 {
				s.i = len(s.b)
				return nil, s.unexpected("']'")
			}
			end = s.i + n
		}
		rest := s.b[s.i:end]
		if quote := bytes.IndexByte(rest, '"'); quote >= 0 {
			level += bytes.Count(rest[:quote], []byte{'['})
			s.i += quote
			if _, err := s.text(); err != nil {
				return nil, err
			}
		} else {
			level += bytes.Count(rest, []byte{'['}) - 1
			s.i = end + 1
		}
		if s.depth+level > DepthMax {
			return nil, s.fail("the JSON is nested deeper than %d levels, at byte %d", DepthMax, s.from+s.i)
		}
		if level == 0 {
			return s.b[from:s.i:s.i], nil
		}
	}
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.unexpected("a JSON value")
	}
	s.i += len(w)
	return nil
}

func (s *scanner) boolean() (bool, error) {
	switch s.peek() {
	case 't':
		return true, s.word("true")
	case 'f':
		return false, s.word("false")
	}
	return false, s.unexpected("true or false")
}

// number reads a JSON number's text.
func (s *scanner) number() ([]byte, error) {
	s.ws()
	from := s.i
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	first := s.i
	if s.digits() == 0 {
		s.i = from
		return nil, s.unexpected("a number")
	}
	if s.b[first] == '0' && s.i > first+1 {
		s.i = first
		return nil, s.fail("byte %d: a number must not begin with 0", s.from+first)
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if s.digits() == 0 {
			return nil, s.unexpected("a digit")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			return nil, s.unexpected("a digit")
		}
	}
	return s.b[from:s.i], nil
}

func (s *scanner) digits() int {
	from := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' < 10 {
		s.i++
	}
	return s.i - from
}

// natural reads an integer of 0 or more.
func (s *scanner) natural() (int64, error) {
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	if text[0] == '-' && string(text) != "-0" {
		return 0, s.fail("%s is negative", text)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err == nil {
		return n, nil
	}
	if bytes.ContainsAny(text, ".eE") {
		return 0, s.fail("%s is not an integer", text)
	}
	return 0, s.fail("%s is too large", text)
}

// text reads a string. It aliases the input unless it has escapes.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a string")
	}
	from := s.i + 1
	for i := from; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[from:i:i], nil
		case c == '\\':
			return s.appendText(nil)
		case c < 0x20:
			s.i = i
			return nil, s.unexpected("an escape, not a control character,")
		}
	}
	s.i = len(s.b)
	return nil, s.unexpected("'\"'")
}

// appendText reads a string, unescaped, onto dst.
func (s *scanner) appendText(dst []byte) ([]byte, error) {
	if s.peek() != '"' {
		return dst, s.unexpected("a string")
	}
	s.i++
	for {
		n := bytes.IndexAny(s.b[s.i:], "\"\\")
		if n < 0 {
			s.i = len(s.b)
			return dst, s.unexpected("'\"'")
		}
		for j, c := range s.b[s.i : s.i+n] {
			if c < 0x20 {
				s.i += j
				return dst, s.unexpected("an escape, not a control character,")
			}
		}
		dst = append(dst, s.b[s.i:s.i+n]...)
		s.i += n + 1
		if s.b[s.i-1] == '"' {
			return dst, nil
		}
		var err error
		if dst, err = s.escape(dst); err != nil {
			return dst, err
		}
	}
}

// escape reads what follows a backslash.
func (s *scanner) escape(dst []byte) ([]byte, error) {
	if s.i >= len(s.b) {
		return dst, s.unexpected("an escape")
	}
	c := s.b[s.i]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		s.i++
		return s.unicode(dst)
	default:
		return dst, s.unexpected("an escape")
	}
	s.i++
	return append(dst, c), nil
}

// unicode reads \uXXXX, and its second half where it is a surrogate. A
// surrogate without its other half becomes U+FFFD, as in encoding/json.
func (s *scanner) unicode(dst []byte) ([]byte, error) {
	r, ok := s.hex4(s.i)
	if !ok {
		return dst, s.unexpected("four hexadecimal digits")
	}
	s.i += 4
	if utf16.IsSurrogate(r) {
		if bytes.HasPrefix(s.b[s.i:], []byte(`\u`)) {
			low, ok := s.hex4(s.i + 2)
			if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
				s.i += 6
				return utf8.AppendRune(dst, pair), nil
			}
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r), nil
}

func (s *scanner) hex4(i int) (rune, bool) {
	if i+4 > len(s.b) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(s.b[i:i+4]), 16, 16)
	return rune(v), err == nil
}
