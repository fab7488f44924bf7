package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// lineMax bounds a line: memory stays the same whatever the file holds. A row
// of a day's counts has some 10,000 bytes.
const lineMax = 1 << 20

// lines reads a CSV file line by line, without allocating for each. Fields are
// split at commas; spaces and one pair of quotes around a field are taken off.
// A comma within quotes is not understood: such a line has a field too many.
type lines struct {
	name string
	scan *bufio.Scanner
	buf  []byte
	n    int // number of the line last read
}

func newLines(name string, r io.Reader) *lines {
	if name == "" {
		name = "trace"
	}
	l := &lines{name: name, buf: make([]byte, 0, 1<<16)}
	l.restart(r)
	return l
}

// restart reads from the first line on; r is at its begin.
func (l *lines) restart(r io.Reader) {
	l.scan, l.n = bufio.NewScanner(r), 0
	l.scan.Buffer(l.buf, lineMax)
}

// next is the next line that is not blank, valid until the next call; nil, nil
// at the end.
func (l *lines) next() ([]byte, error) {
	for l.scan.Scan() {
		l.n++
		line := l.scan.Bytes()
		if l.n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
	if err := l.scan.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s:%d: %w", ErrInvalid, l.name, l.n+1, err)
	}
	return nil, nil
}

// bad is an error about the line last read.
func (l *lines) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s:%d: %s", ErrInvalid, l.name, l.n, fmt.Sprintf(format, args...))
}

// field cuts the first field off a line; more tells that others follow.
func field(line []byte) (value, rest []byte, more bool) {
	value, rest, more = bytes.Cut(line, []byte{','})
	value = bytes.TrimSpace(value)
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	return value, rest, more
}

func letter(s []byte) bool {
	return len(s) > 0 && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}
