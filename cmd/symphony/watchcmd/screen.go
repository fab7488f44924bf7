package watchcmd

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// screen is a terminal that a picture has for itself: on the alternate screen, so that what was there comes back,
// without a cursor, and with keys that are read one by one and not echoed. close leaves it as it was.
type screen struct {
	in, out *os.File
	was     *unix.Termios // of in; nil: it is no terminal, and has no keys
	keys    chan byte     // that were typed
	done    chan struct{} // closed by close
	ended   chan struct{} // closed when nobody reads in any more
}

func openScreen(in, out *os.File) *screen {
	s := &screen{in: in, out: out, keys: make(chan byte), done: make(chan struct{}), ended: make(chan struct{})}
	if t, err := unix.IoctlGetTermios(int(in.Fd()), ioctlGetTermios); err == nil {
		keys := *t
		keys.Lflag &^= unix.ICANON | unix.ECHO // Ctrl-C stays a signal
		keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 0, 1
		for _, key := range fatalKeys { // who is stopped or killed by a key leaves the terminal as it is now
			keys.Cc[key] = noKey
		}
		if unix.IoctlSetTermios(int(in.Fd()), ioctlSetTermios, &keys) == nil {
			s.was = t
		}
	}
	_, _ = s.out.WriteString("\x1b[?1049h\x1b[?25l\x1b[2J")
	go s.read()
	return s
}

func (s *screen) close() {
	close(s.done)
	<-s.ended // what is typed from now on is the shell's
	_, _ = s.out.WriteString("\x1b[?25h\x1b[?1049l")
	if s.was != nil {
		_ = unix.IoctlSetTermios(int(s.in.Fd()), ioctlSetTermios, s.was)
	}
}

// read hands on what is typed, until close or until the terminal is gone.
func (s *screen) read() {
	defer close(s.ended)
	if s.was == nil {
		return
	}
	for {
		var key [1]byte
		n, err := unix.Read(int(s.in.Fd()), key[:]) // waits for a tenth of a second (VTIME)
		select {
		case <-s.done:
			return
		default:
		}
		switch {
		case n == 1:
			select {
			case s.keys <- key[0]:
			case <-s.done:
				return
			}
		case err == nil || err == unix.EINTR || err == unix.EAGAIN:
			time.Sleep(20 * time.Millisecond) // of a terminal that is gone a read does not wait
		default:
			return
		}
	}
}

// size is so many columns and lines.
func (s *screen) size() (width, height int) {
	if w, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 0 {
		return int(w.Col), int(w.Row)
	}
	return 80, 24
}

// draw puts lines on it, none longer than width: each at its place, so that a terminal that became smaller meanwhile
// wraps none into the next. What is behind a line is cleared, but not behind one that fills its row: some terminals
// would clear its last sign.
func (s *screen) draw(lines []string, width, height int) {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "\x1b[%d;1H%s", i+1, line)
		if utf8.RuneCountInString(line) < width {
			b.WriteString("\x1b[K")
		}
	}
	if len(lines) < height {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[J", len(lines)+1)
	}
	_, _ = s.out.WriteString(b.String())
}
