package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// content is a file that no cut and no repetition leaves the same.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// registryOf serves data, and is counted: requests, and the Range of each.
type registryOf struct {
	data   []byte
	cut    atomic.Int64 // > 0: the next answer ends after so many bytes
	whole  bool         // serves no parts
	asked  atomic.Int64
	mu     sync.Mutex
	ranges []string
}

func (s *registryOf) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ranges
}

func (s *registryOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.mu.Lock()
	s.ranges = append(s.ranges, r.Header.Get("Range"))
	s.mu.Unlock()
	if n := s.cut.Swap(0); n > 0 {
		first := 0
		if at, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && !s.whole {
			first, _ = strconv.Atoi(strings.TrimSuffix(at, "-"))
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(first)+"-"+strconv.Itoa(len(s.data)-1)+"/"+strconv.Itoa(len(s.data)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(s.data)-first))
		if first > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(s.data[first : first+int(n)])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if s.whole {
		w.Write(s.data)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.data))
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// quick does not wait between tries.
var quick = Getter{Wait: time.Millisecond}

func TestGetTwice(t *testing.T) {
	r := &registryOf{data: content(1 << 20)}
	f := File{URL: serve(t, r), Path: filepath.Join(t.TempDir(), "folder", "file"), Size: 1 << 20, Sum: sumOf(r.data)}
	for range 2 {
		if err := quick.Get(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(got, r.data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if r.asked.Load() != 1 {
		t.Errorf("%d requests, want 1", r.asked.Load())
	}
	if _, err := os.Stat(f.Path + ".part"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the .part is still there: %v", err)
	}
}

// A connection that breaks is replaced within the same call, from the byte where it broke.
func TestBrokenConnectionGoesOn(t *testing.T) {
	r := &registryOf{data: content(3 << 20)}
	r.cut.Store(1 << 20)
	f := File{URL: serve(t, r), Path: filepath.Join(t.TempDir(), "file"), Size: 3 << 20, Sum: sumOf(r.data)}
	if err := quick.Get(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if ranges := r.told(); len(ranges) != 2 || ranges[0] != "" || ranges[1] != "bytes=1048576-" {
		t.Errorf("asked for %q", ranges)
	}
}

// A registry that falls silent is asked again for the rest.
func TestSilentConnectionGoesOn(t *testing.T) {
	data := content(1 << 20)
	asked := make(chan string, 10)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Range")
		if r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data[:1<<19])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	f := File{URL: s, Path: filepath.Join(t.TempDir(), "file"), Size: 1 << 20, Sum: sumOf(data)}
	g := Getter{Wait: time.Millisecond, Silence: time.Second}
	if err := g.Get(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	<-asked
	if again := <-asked; again != "bytes=524288-" {
		t.Errorf("asked for %q", again)
	}
}

// stopAt ends the context when so many bytes have been written.
type stopAt struct {
	io.Writer
	stop context.CancelFunc
}

func (s stopAt) Write(b []byte) (int, error) { s.stop(); return s.Writer.Write(b) }

// What has come when the user ends it is kept, and the next call asks for the rest only.
func TestInterruptedGoesOn(t *testing.T) {
	data := content(4 << 20)
	asked := make(chan string, 10)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Range")
		if r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data[:1<<20])
		w.(http.Flusher).Flush()
		<-r.Context().Done() // and is silent until the client goes
	}))
	f := File{URL: s, Path: filepath.Join(t.TempDir(), "file"), Size: 4 << 20, Sum: sumOf(data)}
	ctx, stop := context.WithCancel(t.Context())
	said := &Progress{out: stopAt{io.Discard, stop}, every: 0} // Ctrl-C as soon as bytes are told
	if err := (Getter{Progress: said}).Get(ctx, f); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want cancelled", err)
	}
	info, err := os.Stat(f.Path + ".part")
	if err != nil || info.Size() == 0 || info.Size() > 1<<20 {
		t.Fatalf("what was kept: %v, %v", info, err)
	}
	if err := quick.Get(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(f.Path); !bytes.Equal(got, data) {
		t.Error("the file is another one")
	}
	<-asked
	if got, want := <-asked, "bytes="+strconv.FormatInt(info.Size(), 10)+"-"; got != want || len(asked) > 0 {
		t.Errorf("asked for %q, want %q alone", got, want)
	}
}

// A registry that serves no parts sends all again, and the part is not put in front of it.
func TestRegistryWithoutParts(t *testing.T) {
	r := &registryOf{data: content(2 << 20), whole: true}
	r.cut.Store(1 << 20)
	f := File{URL: serve(t, r), Path: filepath.Join(t.TempDir(), "file"), Size: 2 << 20, Sum: sumOf(r.data)}
	if err := quick.Get(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if ranges := r.told(); len(ranges) != 2 || ranges[1] != "bytes=1048576-" {
		t.Errorf("asked for %q", ranges)
	}
}

// A whole .part that was never checked is checked, not fetched; one that is longer than
// the file is thrown away; of an unknown size one that is whole makes the registry answer
// that there is no more, and is fetched again.
func TestPartsOfEarlierRuns(t *testing.T) {
	data := content(1 << 20)
	for name, c := range map[string]struct {
		part  []byte
		size  int64
		asked int64
	}{
		"whole":               {data, 1 << 20, 0},
		"too long":            {append(data[:len(data):len(data)], "more"...), 1 << 20, 1},
		"whole, not pinned":   {data, 0, 2},
		"half, not pinned":    {data[:1<<19], 0, 1},
		"of another file":     {make([]byte, 1<<19), 1 << 20, 1},
		"nothing, not pinned": {nil, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &registryOf{data: data}
			f := File{URL: serve(t, r), Path: filepath.Join(t.TempDir(), "file"), Size: c.size, Sum: sumOf(data)}
			if err := os.WriteFile(f.Path+".part", c.part, 0o644); err != nil {
				t.Fatal(err)
			}
			err := quick.Get(t.Context(), f)
			if name == "of another file" { // it was resumed: only the checksum tells
				if err == nil || !strings.Contains(err.Error(), "checksum") {
					t.Fatalf("%v, want the checksum refused", err)
				}
				err = quick.Get(t.Context(), f)
				c.asked++
			}
			if err != nil || r.asked.Load() != c.asked {
				t.Errorf("%v, %d requests, want %d", err, r.asked.Load(), c.asked)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	data := content(1 << 16)
	good := serve(t, &registryOf{data: data})
	missing := serve(t, http.NotFoundHandler())
	endless := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush() // chunked: no size is announced
		w.Write(data)
		w.Write([]byte("and more"))
	}))
	short := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.Write(data[:100])
	}))
	for want, c := range map[string]struct {
		file File
		part bool // is kept for the next try
	}{
		"checksum":          {File{URL: good, Size: 1 << 16, Sum: sumOf([]byte("another"))}, false},
		"65537 are pinned":  {File{URL: good, Size: 1<<16 + 1, Sum: sumOf(data)}, true},
		"404":               {File{URL: missing, Size: 1 << 16, Sum: sumOf(data)}, true},
		"more than 65536":   {File{URL: endless, Size: 1 << 16, Sum: sumOf(data)}, false},
		"of 65536 bytes":    {File{URL: short, Size: 1 << 16, Sum: sumOf(data)}, true},
		"cannot be reached": {File{URL: "http://127.0.0.1:1", Size: 1 << 16, Sum: sumOf(data)}, true},
		"neither sha256":    {File{URL: good, Size: 1 << 16, Sum: "md5"}, false},
	} {
		t.Run(want, func(t *testing.T) {
			c.file.Path = filepath.Join(t.TempDir(), "file")
			err := quick.Get(t.Context(), c.file)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if _, err := os.Stat(c.file.Path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file has its name: %v", err)
			}
			if _, err := os.Stat(c.file.Path + ".part"); (err == nil) != c.part {
				t.Errorf("the part: %v, want it kept: %v", err, c.part)
			}
		})
	}
}

// /dev/full takes nothing, as a full disk does.
func TestDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	data := content(1 << 16)
	f := File{URL: serve(t, &registryOf{data: data}), Path: filepath.Join(t.TempDir(), "file"), Size: 1 << 16, Sum: sumOf(data)}
	if err := os.Symlink("/dev/full", f.Path+".part"); err != nil {
		t.Fatal(err)
	}
	if err := quick.Get(t.Context(), f); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%v, want that the disk is full", err)
	}
}

func TestRegistry(t *testing.T) {
	t.Setenv("TEST_REGISTRY", "https://own.example/simple/")
	if got := Registry("TEST_REGISTRY", []string{"false"}, "x"); got != "https://own.example/simple" {
		t.Error(got)
	}
	t.Setenv("TEST_REGISTRY", "")
	if got := Registry("TEST_REGISTRY", []string{"echo", "https://said.example/"}, "x"); got != "https://said.example" {
		t.Error(got)
	}
	for _, command := range [][]string{{"false"}, {"echo", "undefined"}, {"no-such-command"}} {
		if got := Registry("TEST_REGISTRY", command, "https://public.example"); got != "https://public.example" {
			t.Errorf("%q: %s", command, got)
		}
	}
	if got := Shown("https://me:secret@own.example/simple"); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

func TestProgressInALog(t *testing.T) {
	var log bytes.Buffer
	p := &Progress{out: &log, every: time.Hour}
	p.begin("file", 0, 2e6)
	for range 1000 {
		p.add(2000)
	}
	p.end()
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "  file: 2.0 of 2.0 MB, ") || strings.Contains(text, "\r") {
		t.Errorf("%q", text)
	}
}
