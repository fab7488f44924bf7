package linefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(Options{Path: path, Tell: func(dst []byte, lost uint64) []byte { return fmt.Appendf(dst, "lost %d\n", lost) }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func write(f *File, line string) { _, _ = f.Write([]byte(line + "\n")) }

// TestLines: lines are appended in their order, and how many were lost is told behind them.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	for i := range 100 {
		write(f, fmt.Sprint(i))
	}
	f.Lose(3)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	write(f, "after")
	got := read(t, path)
	if len(got) != 102 || got[0] != "before" || got[1] != "0" || got[100] != "99" || got[101] != "lost 3" {
		t.Errorf("%q", got)
	}
	if written, lost := f.Counts(); written != 100 || lost != 4 {
		t.Errorf("%d written, %d lost", written, lost)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullBuffer: what does not fit is counted; nobody waits.
func TestFullBuffer(t *testing.T) {
	s := &File{wake: make(chan struct{}, 1)} // nobody writes
	line := bytes.Repeat([]byte("x"), 1000)
	for range 2 * bufferMax / len(line) {
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(s.full) > bufferMax || s.lines+s.lost.Load() != uint64(2*bufferMax/len(line)) || s.lost.Load() == 0 {
		t.Errorf("%d bytes, %d lines, %d lost", len(s.full), s.lines, s.lost.Load())
	}
}

// TestRotation: a file that was moved away is followed by a new one of its name.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := open(t, path)
	write(f, "first")
	wait(t, func() bool { written, _ := f.Counts(); return written == 1 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { // it is looked for once a second
		write(f, "after")
		_, err := os.Stat(path)
		return err == nil
	})
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if got := read(t, path); got[0] != "after" {
		t.Errorf("%q", got)
	}
	if got := read(t, path+".1"); got[0] != "first" {
		t.Errorf("%q", got)
	}
}

// TestBrokenFile: a file that fails costs lines, is told once, and once that it works again.
func TestBrokenFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []error
	f, err := Open(Options{Path: filepath.Join(dir, "a"), Failed: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	times := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(said)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { write(f, "x"); return times() == 1 })
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { write(f, "x"); return times() == 2 })
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, lost := f.Counts(); !errors.Is(said[0], os.ErrNotExist) || said[1] != nil || lost == 0 {
		t.Errorf("%v, %d lost", said, lost)
	}
	if _, err := Open(Options{Path: filepath.Join(dir, "none", "a")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestHalfALine: what a write that fails has left is not joined by the next line, in a file that can be cut and
// in a pipe, that cannot.
func TestHalfALine(t *testing.T) {
	half := func(s *File) {
		s.put = func(file *os.File, p []byte) (int, error) {
			s.put = (*os.File).Write
			n, _ := file.Write(p[:len(p)/2])
			return n, errors.New("no space left")
		}
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, to := range []*os.File{file, w} {
		s := &File{file: to}
		half(s)
		if err := s.append([]byte("1111\n2222\n")); err == nil {
			t.Error("no error")
		}
		s.put = (*os.File).Write
		for range 2 {
			if err := s.append([]byte("3333\n")); err != nil {
				t.Error(err)
			}
		}
	}
	w.Close()
	if got := read(t, path); !slices.Equal(got, []string{"before", "3333", "3333"}) {
		t.Errorf("%q", got)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "1111\n\n3333\n3333\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHead: a file begins with it, also one that follows; one that has lines is left as it is.
func TestHead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	begin := func() *File {
		f, err := Open(Options{Path: path, Head: []byte("head\n")})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, line := range []string{"1", "2"} {
		f := begin()
		write(f, line)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, path); !slices.Equal(got, []string{"head", "1", "2"}) {
		t.Errorf("%q", got)
	}
	f := begin()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { // it is looked for once a second
		write(f, "3")
		_, err := os.Stat(path)
		return err == nil
	})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got[0] != "head" || got[1] != "3" {
		t.Errorf("%q", got)
	}
}

func wait(t *testing.T, is func() bool) {
	t.Helper()
	for range 20_000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not come")
}
