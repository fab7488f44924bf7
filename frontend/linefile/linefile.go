// Package linefile appends lines to a file behind a bounded buffer: who writes never waits for the
// disk. Lines that the buffer or a file that fails cost are counted. A file that was moved away, as rotators of
// logs do, is followed by a new one of its name.
package linefile

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferMax is how many bytes of lines wait for the file at most.
	bufferMax = 1 << 20
	// gather is how long the goroutine lets lines gather before it writes them in one call.
	gather = 20 * time.Millisecond
	// lookEvery is how often it is looked for whether the file was moved away.
	lookEvery = time.Second
)

// Options of a File. Path is required.
type Options struct {
	Path   string      // "-" is standard output
	Failed func(error) // is told when the file cannot be written, and with nil when it can again; may be nil
	Head   []byte      // lines that a file begins with, also one that follows; they are not counted
	// Opened is called with each file before anything is written to it, also with one that follows; an
	// error is that of opening it. May be nil.
	Opened func(*os.File) error
	// Tell appends a line that tells how many were lost since the last time; nil: that is not told.
	Tell func(dst []byte, lost uint64) []byte
}

// File is safe for concurrent use.
type File struct {
	path   string
	failed func(error)
	head   []byte
	opened func(*os.File) error
	put    func(file *os.File, p []byte) (int, error) // its Write, but for tests
	tell   func(dst []byte, lost uint64) []byte

	mu     sync.Mutex // Guards filling and closed.
	full   []byte
	lines  uint64 // in full
	closed bool

	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}

	written atomic.Uint64 // lines
	lost    atomic.Uint64

	// Owned by run.
	file   *os.File
	torn   bool // half a line is at its end
	looked time.Time
	spare  []byte
	told   uint64 // of lost
	broken bool
	err    error // of the last write
}

// Open opens the file and starts the goroutine that writes.
func Open(o Options) (*File, error) {
	s := &File{path: o.Path, failed: o.Failed, head: o.Head, opened: o.Opened, put: (*os.File).Write, tell: o.Tell, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	if s.failed == nil {
		s.failed = func(error) {}
	}
	if s.path == "-" {
		s.file = os.Stdout
	} else if err := s.open(); err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

func (s *File) open() error {
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err // it names the path
	}
	if s.opened != nil {
		if err := s.opened(file); err != nil {
			file.Close()
			return err
		}
	}
	s.file, s.torn = file, false
	if info, err := file.Stat(); len(s.head) > 0 && err == nil && info.Size() == 0 {
		if err := s.append(s.head); err != nil {
			file.Close()
			s.file = nil
			return err
		}
	}
	return nil
}

// append writes lines whole: what a write that fails has left of them is cut off, or, where that cannot be
// either, ended, so that the next line is one of its own.
func (s *File) append(lines []byte) error {
	if s.torn {
		if _, err := s.put(s.file, []byte{'\n'}); err != nil {
			return err
		}
		s.torn = false
	}
	n, err := s.put(s.file, lines)
	if err == nil || n <= 0 {
		return err
	}
	info, no := s.file.Stat()
	if no == nil && info.Mode().IsRegular() {
		no = s.file.Truncate(max(info.Size()-int64(n), 0))
	} else {
		no = err
	}
	s.torn = no != nil
	return err
}

// Write implements io.Writer: it takes a line, or counts it as lost where there is no room.
func (s *File) Write(line []byte) (int, error) {
	s.mu.Lock()
	if s.closed || len(s.full)+len(line) > bufferMax {
		s.mu.Unlock()
		s.lost.Add(1)
		return len(line), nil
	}
	s.full = append(s.full, line...)
	s.lines++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return len(line), nil
}

func (s *File) run() {
	defer close(s.ended)
	for {
		select {
		case <-s.wake:
			select {
			case <-time.After(gather):
			case <-s.stop:
			}
			s.flush()
		case <-s.stop:
			s.flush()
			return
		}
	}
}

// flush writes what there is. Lines that the file does not take are lost.
func (s *File) flush() {
	s.mu.Lock()
	lines, n := s.full, s.lines
	s.full, s.lines = s.spare[:0], 0
	s.mu.Unlock()
	s.spare = lines
	if lost := s.lost.Load(); lost != s.told && len(lines) > 0 && s.tell != nil {
		lines = s.tell(lines, lost-s.told)
		s.told = lost
	}
	if len(lines) == 0 {
		return
	}
	if s.path != "-" {
		s.follow()
	}
	err := error(nil)
	if s.file == nil {
		err = s.open()
	}
	if err == nil {
		err = s.append(lines)
	}
	if s.err = err; err != nil {
		s.lost.Add(n)
	} else {
		s.written.Add(n)
	}
	if (err != nil) != s.broken {
		s.broken = err != nil
		s.failed(err)
	}
}

// follow opens the path again where what is open was moved away, as rotators of logs do.
func (s *File) follow() {
	now := time.Now()
	if s.file == nil || now.Sub(s.looked) < lookEvery {
		return
	}
	s.looked = now
	ours, err := s.file.Stat()
	if err != nil {
		return
	}
	if there, err := os.Stat(s.path); err != nil || !os.SameFile(ours, there) {
		s.file.Close()
		s.file = nil
	}
}

// Lose counts lines that their writer has not even begun.
func (s *File) Lose(n uint64) { s.lost.Add(n) }

// Counts are the lines that were written, and that were lost.
func (s *File) Counts() (written, lost uint64) { return s.written.Load(), s.lost.Load() }

// Close writes what there is, and closes the file. What comes after is lost.
func (s *File) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	close(s.stop)
	<-s.ended
	if s.path == "-" || s.file == nil {
		return s.err
	}
	if err := s.file.Close(); err != nil {
		return err
	}
	return s.err
}

var _ io.Writer = (*File)(nil)
