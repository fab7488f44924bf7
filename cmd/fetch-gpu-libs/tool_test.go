package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/internal/fetch"
)

// text is a library's content: it does not compress, so that a wheel is as long.
func text(seed, n int) string {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return string(b)
}

// wheelOf makes a wheel with these files, and how it is pinned.
func wheelOf(t *testing.T, project string, files map[string]string, members ...string) (wheel, []byte) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	var unpacked int64
	for name, content := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(content))
		unpacked += int64(len(content))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	return wheel{
		project: project, version: "1.0", file: project + "-1.0.whl", size: int64(b.Len()), unpacked: unpacked,
		sum: "sha256:" + hex.EncodeToString(sum[:]), folder: "lib", members: members,
	}, b.Bytes()
}

// index is a Python package index.
type index struct {
	url    string
	files  map[string][]byte // by name
	html   bool              // the older form of its pages
	whole  bool              // serves no parts
	cut    map[string]int    // the next answer for a file ends after so many bytes, and so do those after it
	mu     sync.Mutex        // guards what changes while it serves: cut, pages, ranges
	pages  int
	ranges []string // of the files asked for: "file bytes=..."
}

// told is what was asked for since the last call.
func (x *index) told() (pages int, ranges []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	pages, ranges, x.pages, x.ranges = x.pages, x.ranges, 0, nil
	return pages, ranges
}

// cutAt lets the next answers for a file end after n bytes; 0: no more.
func (x *index) cutAt(file string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cut[file] = n
}

func newIndex(t *testing.T) *index {
	x := &index{files: map[string][]byte{}, cut: map[string]int{}}
	s := httptest.NewServer(x)
	t.Cleanup(s.Close)
	x.url = s.URL + "/simple"
	return x
}

func (x *index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if project, ok := strings.CutPrefix(r.URL.Path, "/simple/"); ok {
		x.pages++
		x.page(w, strings.TrimSuffix(project, "/"))
		return
	}
	name := filepath.Base(r.URL.Path)
	data, ok := x.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	x.ranges = append(x.ranges, strings.TrimSpace(name+" "+r.Header.Get("Range")))
	if n := x.cut[name]; n > 0 && r.Header.Get("Range") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	} else if n > 0 {
		panic(http.ErrAbortHandler) // no more comes
	}
	if x.whole {
		w.Write(data)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (x *index) page(w http.ResponseWriter, project string) {
	if x.html {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for name := range x.files {
			fmt.Fprintf(w, "<a data-x=\"1\"\n href=\"../../files/%s#sha256=0&amp;x=1\">%s</a><br/>\n", name, name)
		}
		return
	}
	w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
	var list struct {
		Files []map[string]string `json:"files"`
	}
	for name := range x.files {
		list.Files = append(list.Files, map[string]string{"filename": name, "url": "/files/" + name})
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (x *index) add(w wheel, data []byte) wheel {
	x.files[w.file] = data
	return w
}

// toolFor fetches from an index into a new folder, with room for everything.
func toolFor(t *testing.T, x *index) (tool, *bytes.Buffer) {
	said := &bytes.Buffer{}
	return tool{
		index: x.url, dir: filepath.Join(t.TempDir(), "lib"), out: said,
		free:   func(string) (int64, error) { return math.MaxInt64, nil },
		getter: fetch.Getter{Wait: time.Millisecond},
	}, said
}

func (t tool) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(t.dir, name))
	return string(b)
}

func two(t *testing.T, x *index) []wheel {
	a := x.add(wheelOf(t, "one", map[string]string{"lib/liba.so.1": text(1, 300_000), "lib/liba.so.1.2": text(2, 1000), "other/README": "no"}, "liba.so.*"))
	a.links = []string{"liba.so=liba.so.1"}
	b := x.add(wheelOf(t, "two", map[string]string{"lib/libb.so.2": text(3, 500_000), "lib/sub/x.h": "deep"}, "libb.so.2", "sub/*.h"))
	return []wheel{a, b}
}

func TestFetchTwice(t *testing.T) {
	for _, html := range []bool{false, true} {
		x := newIndex(t)
		x.html = html
		wheels := two(t, x)
		tl, said := toolFor(t, x)
		if err := tl.fetch(t.Context(), wheels); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said.String(), "0 of 2 packages are there; fetching 0.8 MB") {
			t.Errorf("%q", said)
		}
		for name, want := range map[string]string{"liba.so.1": text(1, 300_000), "liba.so.1.2": text(2, 1000), "liba.so": text(1, 300_000), "libb.so.2": text(3, 500_000), "sub/x.h": "deep", "README": ""} {
			if tl.read(name) != want {
				t.Errorf("%s: %d bytes, want %d", name, len(tl.read(name)), len(want))
			}
		}
		if left, _ := filepath.Glob(filepath.Join(tl.state(), "*.whl*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		x.told()
		said.Reset()
		err := tl.fetch(t.Context(), wheels)
		if pages, files := x.told(); err != nil || pages != 0 || len(files) != 0 {
			t.Errorf("the second time: %v, asked for %d pages, %v", err, pages, files)
		}
		if !strings.HasPrefix(said.String(), "all packages are there") {
			t.Errorf("%q", said)
		}
	}
}

// The registry breaks in the middle and stays away; the next run asks for the rest of the
// second wheel alone.
func TestInterruptedGoesOn(t *testing.T) {
	x := newIndex(t)
	wheels := two(t, x)
	tl, said := toolFor(t, x)
	x.cutAt(wheels[1].file, 200_000)
	err := tl.fetch(t.Context(), wheels)
	if err == nil || !strings.Contains(err.Error(), "two 1.0: ") {
		t.Fatalf("%v, want the second wheel's failure", err)
	}
	if !tl.present(wheels[0]) || tl.present(wheels[1]) {
		t.Error("the first wheel should be there, the second not")
	}
	if tl.read("libb.so.2") != "" {
		t.Error("half a library has its name")
	}
	x.cutAt(wheels[1].file, 0)
	x.told()
	said.Reset()
	if err := tl.fetch(t.Context(), wheels); err != nil {
		t.Fatal(err)
	}
	want := wheels[1].file + " bytes=200000-"
	if _, files := x.told(); len(files) != 1 || files[0] != want {
		t.Errorf("asked for %q, want %q", files, want)
	}
	if rest := fmt.Sprintf("fetching %s", mb(wheels[1].size-200_000)); !strings.Contains(said.String(), rest) {
		t.Errorf("%q does not say %q", said, rest)
	}
	if tl.read("libb.so.2") != text(3, 500_000) {
		t.Error("the library is another one")
	}
}

// Ctrl-C between and in the steps: whatever is there is whole, and the next run ends it.
func TestCancelledGoesOn(t *testing.T) {
	x := newIndex(t)
	wheels := two(t, x)
	tl, _ := toolFor(t, x)
	for step := range 200 {
		ctx := &countdown{Context: t.Context(), left: step}
		err := tl.fetch(ctx, wheels)
		for _, name := range []string{"liba.so.1", "libb.so.2"} {
			if got := tl.read(name); got != "" && got != text(map[string]int{"liba.so.1": 1, "libb.so.2": 3}[name], len(got)) || len(got)%100_000 != 0 {
				t.Fatalf("step %d: %s has %d bytes", step, name, len(got))
			}
		}
		if err == nil {
			if tl.read("libb.so.2") == "" || step < 3 {
				t.Fatalf("done after %d steps", step)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	t.Fatal("it never got done")
}

// countdown is a context that ends when it has been asked so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Without parts the registry sends all again.
func TestRegistryWithoutParts(t *testing.T) {
	x := newIndex(t)
	x.whole = true
	wheels := two(t, x)
	tl, _ := toolFor(t, x)
	if err := os.MkdirAll(tl.state(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tl.archive(wheels[0])+".part", make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tl.fetch(t.Context(), wheels); err != nil || !tl.present(wheels[0]) {
		t.Error(err)
	}
}

func TestFetchRefuses(t *testing.T) {
	good := func(x *index) wheel {
		return x.add(wheelOf(t, "one", map[string]string{"lib/liba.so.1": text(1, 1000)}, "liba.so.*"))
	}
	for want, make := range map[string]func(x *index, tl *tool) wheel{
		"checksum": func(x *index, _ *tool) wheel {
			w := good(x)
			x.files[w.file][100] ^= 1
			return w
		},
		"bytes, ": func(x *index, _ *tool) wheel { w := good(x); w.size++; return w },
		"the wheel has no lib/libz.so.*": func(x *index, _ *tool) wheel {
			w := good(x)
			w.members = append(w.members, "libz.so.*")
			return w
		},
		`"../../evil", which would lie outside`: func(x *index, _ *tool) wheel {
			return x.add(wheelOf(t, "one", map[string]string{"lib/liba.so.1": "x", "../../evil": "y"}, "liba.so.*"))
		},
		`evil", which would lie outside of the folder`: func(x *index, _ *tool) wheel {
			return x.add(wheelOf(t, "one", map[string]string{"lib/liba.so.1": "x", `lib\..\evil`: "y"}, "liba.so.*"))
		},
		"not a valid zip": func(x *index, _ *tool) wheel {
			w := good(x)
			data := []byte("no zip at all")
			sum := sha256.Sum256(data)
			w.size, w.sum, x.files[w.file] = int64(len(data)), "sha256:"+hex.EncodeToString(sum[:]), data
			return w
		},
		"has no other.whl among its 1 files": func(x *index, _ *tool) wheel { w := good(x); w.file = "other.whl"; return w },
		"Without a network: place the files that `ask -list` names": func(x *index, tl *tool) wheel {
			w := good(x)
			tl.index, tl.names = "http://127.0.0.1:1/simple", "ask -list"
			return w
		},
		"room for 0.0 MB": func(x *index, tl *tool) wheel {
			tl.free = func(string) (int64, error) { return 1000, nil }
			return good(x)
		},
	} {
		t.Run(want, func(t *testing.T) {
			x := newIndex(t)
			tl, _ := toolFor(t, x)
			w := make(x, &tl)
			err := tl.fetch(t.Context(), []wheel{w})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if tl.present(w) || tl.read("liba.so.1") != "" {
				t.Error("it is there all the same")
			}
			if want == "checksum" {
				if _, err := os.Stat(tl.archive(w) + ".part"); !os.IsNotExist(err) {
					t.Errorf("the .part is still there: %v", err)
				}
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(tl.dir), "evil")); !os.IsNotExist(err) {
				t.Errorf("it wrote outside of the folder: %v", err)
			}
		})
	}
}

// A wheel placed by hand needs no network.
func TestPlacedByHand(t *testing.T) {
	x := newIndex(t)
	wheels := two(t, x)
	tl, _ := toolFor(t, x)
	tl.index = "http://127.0.0.1:1/simple"
	for _, w := range wheels {
		if err := os.MkdirAll(tl.state(), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tl.archive(w), x.files[w.file], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tl.keep = true
	if err := tl.fetch(t.Context(), wheels); err != nil || tl.read("libb.so.2") == "" {
		t.Fatal(err)
	}
	if _, err := os.Stat(tl.archive(wheels[0])); err != nil {
		t.Errorf("-keep did not: %v", err)
	}
}

// A newer pin takes the place of the older one, and its files go.
func TestNewerPin(t *testing.T) {
	x := newIndex(t)
	tl, _ := toolFor(t, x)
	old := x.add(wheelOf(t, "one", map[string]string{"lib/liba.so.1.0": "old", "lib/liba.so.1": "old"}, "liba.so.*"))
	if err := tl.fetch(t.Context(), []wheel{old}); err != nil {
		t.Fatal(err)
	}
	newer := x.add(wheelOf(t, "one", map[string]string{"lib/liba.so.1.1": "new", "lib/liba.so.1": "new"}, "liba.so.*"))
	if tl.present(newer) {
		t.Fatal("the old one counts as the new one")
	}
	if err := tl.fetch(t.Context(), []wheel{newer}); err != nil {
		t.Fatal(err)
	}
	if tl.read("liba.so.1") != "new" || tl.read("liba.so.1.1") != "new" || tl.read("liba.so.1.0") != "" {
		t.Errorf("%q %q %q", tl.read("liba.so.1"), tl.read("liba.so.1.1"), tl.read("liba.so.1.0"))
	}
	if err := os.WriteFile(filepath.Join(tl.dir, "liba.so.1.1"), []byte("cut "), 0o644); err != nil || tl.present(newer) {
		t.Error("a damaged file counts as present")
	}
}

func TestTwoAtOnce(t *testing.T) {
	x := newIndex(t)
	wheels := two(t, x)
	tl, _ := toolFor(t, x)
	if err := os.MkdirAll(tl.state(), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := tl.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.fetch(t.Context(), wheels); err == nil || !strings.Contains(err.Error(), "another fetch is under way") {
		t.Error(err)
	}
	unlock()
	if err := tl.fetch(t.Context(), wheels); err != nil {
		t.Error(err)
	}
}

// The tables are what they must be for the rest to work.
func TestTables(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, w := range append(libraries(arch), headerWheels(arch)...) {
			sum, ok := strings.CutPrefix(w.sum, "sha256:")
			if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size {
				t.Errorf("%s: checksum %q", w.file, w.sum)
			}
			if w.size <= 0 || w.unpacked <= 0 || len(w.members) == 0 {
				t.Errorf("%s: sizes %d, %d, members %v", w.file, w.size, w.unpacked, w.members)
			}
			name := strings.ReplaceAll(w.project, "-", "_") + "-" + w.version + "-"
			machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
			if !strings.HasPrefix(w.file, name) || !strings.HasSuffix(w.file, machine+".whl") {
				t.Errorf("%s is not %s for %s", w.file, name, machine)
			}
			for _, l := range w.links {
				if link, target, ok := strings.Cut(l, "="); !ok || filepath.Base(link) != link || filepath.Base(target) != target {
					t.Errorf("%s: link %q", w.file, l)
				}
			}
		}
	}
	all, err := choose("linux", "amd64", false, "")
	if err != nil || len(all) < 7 {
		t.Errorf("%d wheels, %v", len(all), err)
	}
	if some, err := choose("linux", "amd64", false, "nvidia-curand, onnxruntime-gpu"); err != nil || len(some) != 2 || some[1].project != "onnxruntime-gpu" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose("linux", "amd64", false, "cuda"); err == nil || !strings.Contains(err.Error(), "nvidia-cublas") {
		t.Error(err)
	}
	if _, err := choose("darwin", "arm64", false, ""); err == nil {
		t.Error("libraries for darwin")
	}
}
