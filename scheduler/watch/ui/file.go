package ui

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// fileBytes bounds what of a file is kept in memory: the newest.
const fileBytes = 1 << 30

// Read makes a Hub of a document: what it shows stands still.
func Read(r io.Reader) (*Hub, error) {
	h := NewHub(Config{Keep: 24 * 3600 * mono.Second, Bytes: fileBytes})
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), watch.LineMax)
	var events watch.Reader
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			head, err := watch.ParseHead(lines.Bytes())
			if err != nil {
				return nil, err
			}
			h.file = head
			continue
		}
		if err := events.Line(lines.Bytes(), h.take); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: a line is longer than %d bytes", watch.ErrDocument, watch.LineMax)
	case err != nil:
		return nil, err
	case h.file.Symphony == "":
		return nil, fmt.Errorf("%w: it is empty", watch.ErrDocument)
	case h.history.Len() == 0:
		return nil, fmt.Errorf("%w: there is no event in it", watch.ErrDocument)
	}
	h.history.Close()
	return h, nil
}

// take takes an event of a file.
func (h *Hub) take(e *watch.Event) {
	if e.Kind != watch.Now {
		h.state.Apply(e)
		h.history.Add(e)
	}
}
