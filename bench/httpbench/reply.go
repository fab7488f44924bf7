package httpbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// errNoHTTP: a reply that the generator does not understand.
var errNoHTTP = errors.New("the reply is no HTTP/1.1 with a Content-Length")

// replies cuts what comes on a connection into replies.
type replies struct {
	b        []byte
	from, to int // of b: come, and not yet used
}

// next reads a reply and passes over its body.
func (r *replies) next(c io.Reader) (status int, err error) {
	for {
		end := bytes.Index(r.b[r.from:r.to], []byte("\r\n\r\n"))
		if end >= 0 {
			var length int
			if status, length, err = head(r.b[r.from : r.from+end+2]); err != nil {
				return 0, err
			}
			r.from += end + 4
			return status, r.skip(c, length)
		}
		if err := r.fill(c); err != nil {
			return 0, err
		}
	}
}

// fill reads more; what is there moves to the front first.
func (r *replies) fill(c io.Reader) error {
	r.to = copy(r.b, r.b[r.from:r.to])
	r.from = 0
	if r.to == len(r.b) {
		return fmt.Errorf("%w: its headers are above %d bytes", errNoHTTP, len(r.b))
	}
	n, err := c.Read(r.b[r.to:])
	r.to += n
	if n > 0 {
		return nil
	}
	return err
}

// skip passes over a body.
func (r *replies) skip(c io.Reader, n int) error {
	for n > r.to-r.from {
		n -= r.to - r.from
		r.from, r.to = 0, 0
		if err := r.fill(c); err != nil {
			return err
		}
	}
	r.from += n
	return nil
}

// head reads the status and the length of the body.
func head(b []byte) (status, length int, err error) {
	if len(b) < 13 || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return 0, 0, errNoHTTP
	}
	if status, err = strconv.Atoi(string(b[9:12])); err != nil {
		return 0, 0, errNoHTTP
	}
	_, rest, ok := bytes.Cut(b, []byte("\r\nContent-Length: "))
	text, _, _ := bytes.Cut(rest, []byte("\r\n"))
	if length, err = strconv.Atoi(string(text)); !ok || err != nil || length < 0 {
		return 0, 0, errNoHTTP
	}
	return status, length, nil
}

// First is Once for a system that has just started: on a busy machine its first requests
// may miss their deadlines, and are asked again for as long as a reply may take.
func First(ctx context.Context, address string, request []byte) (reply []byte, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		reply, err = Once(address, request)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return reply, err
		}
	}
}

// Once sends a request and returns the reply as it came: what an Echo shall say.
func Once(address string, request []byte) ([]byte, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	seen := &bytes.Buffer{}
	r := replies{b: make([]byte, 4<<10)}
	status, err := r.next(io.TeeReader(c, seen))
	if err == nil && status != 200 {
		err = fmt.Errorf("answered %q", seen.Bytes())
	}
	return seen.Bytes(), err
}
