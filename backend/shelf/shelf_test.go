package shelf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/symphony-serving/symphony/transport/catalog"
)

func put(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// model is a folder of one, with a version 1 and 2.
func model(t *testing.T, weights string) string {
	return put(t, t.TempDir(), map[string]string{"config.yaml": "platform: onnxruntime\n", "1/model.onnx": weights, "1/more/a.bin": "aa",
		"2/model.onnx": "two" + weights, "profiles/cpu-v1.json": "{}", ".git/x": "y"})
}

func open(t *testing.T, c Config) *Shelf {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// memory is an object store with files, as gocloud's tests have it.
func memory(files map[string]string) func(context.Context, *url.URL) (*blob.Bucket, error) {
	return func(ctx context.Context, _ *url.URL) (*blob.Bucket, error) {
		b := memblob.OpenBucket(nil)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := b.WriteAll(ctx, name, []byte(files[name]), nil); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
}

func get(t *testing.T, s *Shelf, src catalog.Source) (string, func()) {
	t.Helper()
	dir, release, err := s.Fetch(t.Context(), &src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir, release
}

// have are the files of a folder.
func have(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A version comes from a folder and from an object store alike: config.yaml and its own files,
// nothing else, under the digest that DigestOf says; the second time nothing is fetched.
func TestFetch(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := model(t, "weights")
	want, size, err := DigestOf(dir, "1")
	if err != nil || !want.Valid() || size != int64(len("platform: onnxruntime\nweightsaa")) {
		t.Fatal(want, size, err)
	}
	if two, _, _ := DigestOf(dir, "2"); two == want {
		t.Error("another version, and the same digest")
	}
	objects := map[string]string{"models/other/config.yaml": "no"}
	for name, text := range have(t, dir) {
		objects["models/m/"+name] = text
	}
	files := map[string]string{"config.yaml": "platform: onnxruntime\n", "1/model.onnx": "weights", "1/more/a.bin": "aa"}
	for _, at := range []string{dir, "file://" + dir, "mem://store/models/m"} {
		s := open(t, Config{Buckets: memory(objects)})
		var told []int64
		src := catalog.Source{Name: "m", Version: "1", URL: at, Digest: want, Bytes: size}
		got, release, err := s.Fetch(t.Context(), &src, func(done, total int64) { told = append(told, done, total) })
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(have(t, got), files) || filepath.Base(filepath.Dir(got)) != string(want) || s.Bytes() != size {
			t.Errorf("%s: %v in %s, %d bytes are kept", at, have(t, got), got, s.Bytes())
		}
		// On a busy machine it takes seconds, each of which is told.
		if n := len(told); n < 4 || !slices.Equal(told[:2], []int64{0, size}) || !slices.Equal(told[n-2:], []int64{size, size}) {
			t.Errorf("%s: told %v", at, told)
		}
		release()
		release() // twice is once
		src.URL = "file:///nowhere"
		if again, release := get(t, s, src); again != got {
			t.Errorf("again in %s", again)
		} else {
			release()
		}
		src.Digest = ""
		if _, _, err := s.Fetch(t.Context(), &src, nil); err == nil {
			t.Error("a folder that is not there, without a digest")
		}
	}
}

// The digest is of names, sizes and bytes, and of their order on no disk.
func TestDigest(t *testing.T) {
	first, _, err := DigestOf(put(t, t.TempDir(), map[string]string{"config.yaml": "a", "1/x": "bc", "1/y": ""}), "1")
	if err != nil {
		t.Fatal(err)
	}
	for what, files := range map[string]map[string]string{
		"bytes":   {"config.yaml": "a", "1/x": "bd", "1/y": ""},
		"a name":  {"config.yaml": "a", "1/z": "bc", "1/y": ""},
		"a split": {"config.yaml": "a", "1/x": "b", "1/y": "c"},
		"more":    {"config.yaml": "a", "1/x": "bc", "1/y": "", "1/z": ""},
		"config":  {"config.yaml": "b", "1/x": "bc", "1/y": ""},
	} {
		if d, _, err := DigestOf(put(t, t.TempDir(), files), "1"); err != nil || d == first {
			t.Errorf("%s: %v", what, err)
		}
	}
	// What it is of, by hand: it must not change, or all that is stored is fetched anew.
	const golden = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb 1 config.yaml\n"
	if d, _, err := DigestOf(put(t, t.TempDir(), map[string]string{"config.yaml": "a"}), "7"); err != nil || d != catalog.DigestOf([]byte(golden)) {
		t.Errorf("an emulated model: %s, %v", d, err)
	}
}

// bad is a source that is refused.
type bad struct {
	src   catalog.Source
	store map[string]string
	want  string // "": it is not
}

func badSources(t *testing.T) map[string]bad {
	outside := put(t, t.TempDir(), map[string]string{"secret": "s", "config.yaml": "a"})
	linked := func(at, to string) string {
		dir := model(t, "w")
		if err := os.RemoveAll(filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	many := map[string]string{"config.yaml": "a"}
	for i := range filesMax {
		many[fmt.Sprintf("1/%d", i)] = ""
	}
	good := model(t, "w")
	digest, _, _ := DigestOf(good, "1")
	return map[string]bad{
		"a link out":           {src: catalog.Source{URL: linked("1/model.onnx", filepath.Join(outside, "secret"))}, want: "links that lead out"},
		"a relative link out":  {src: catalog.Source{URL: linked("1/model.onnx", "../../../../../../etc/passwd")}, want: "links that lead out"},
		"a folder out":         {src: catalog.Source{URL: linked("1", outside)}, want: "links that lead out"},
		"config.yaml out":      {src: catalog.Source{URL: linked("config.yaml", filepath.Join(outside, "config.yaml"))}, want: "links that lead out"},
		"a link to nowhere":    {src: catalog.Source{URL: linked("1", "nowhere")}, want: "not there"},
		"links that go round":  {src: catalog.Source{URL: linked("1/more", ".")}, want: "deep"},
		"a path up":            {store: map[string]string{"config.yaml": "a", "1/../../../etc/x": "b"}, want: "name that is not taken"},
		"an absolute path":     {store: map[string]string{"config.yaml": "a", "1//etc/x": "b"}, want: "name that is not taken"},
		"a backslash":          {store: map[string]string{"config.yaml": "a", `1/..\x`: "b"}, want: "name that is not taken"},
		"a line end":           {store: map[string]string{"config.yaml": "a", "1/x\ny": "b"}, want: "name that is not taken"},
		"a long path":          {store: map[string]string{"config.yaml": "a", "1/" + strings.Repeat("x/", 400) + "y": "b"}, want: "name that is not taken"},
		"many files":           {store: many, want: "more than 1000 files"},
		"a large config":       {store: map[string]string{"config.yaml": strings.Repeat("#", configMax+1)}, want: "at most"},
		"no config":            {store: map[string]string{"1/model.onnx": "w"}, want: "no config.yaml"},
		"larger than the disk": {store: map[string]string{"config.yaml": "a", "1/model.onnx": strings.Repeat("w", 5000)}, want: "at most"},
		"another digest":       {src: catalog.Source{URL: good, Digest: "00112233445566778899aabbccddeeff"}, want: "and 00112233445566778899aabbccddeeff was ordered"},
		"another size":         {src: catalog.Source{URL: good, Digest: digest, Bytes: 3}, want: "and 3 were ordered"},
		"no digest":            {src: catalog.Source{URL: good, Digest: "abc"}, want: "no digest"},
		"a version up":         {src: catalog.Source{URL: good, Version: ".."}, want: "version"},
		"a version with a /":   {src: catalog.Source{URL: good, Version: "1/more"}, want: "version"},
		"no version":           {src: catalog.Source{URL: good, Version: "-"}, want: ""},
		"no URL":               {src: catalog.Source{URL: ""}, want: "models are got from"},
		"a relative folder":    {src: catalog.Source{URL: "models/m"}, want: "no absolute path"},
		"another host":         {src: catalog.Source{URL: "file://there/models"}, want: "no absolute path"},
		"no folder":            {src: catalog.Source{URL: "file:///nowhere/at/all"}, want: "no such file"},
		"another scheme":       {src: catalog.Source{URL: "ftp://there/m"}, want: "models are got from"},
	}
}

// Sources that are hostile, broken or too large are refused with a reason, and leave nothing.
func TestRefused(t *testing.T) {
	for what, c := range badSources(t) {
		dir := t.TempDir()
		s := open(t, Config{Dir: dir, Bytes: 3000})
		if c.store != nil {
			s.c.Buckets = memory(c.store)
			c.src.URL = "mem://store"
			if what == "a large config" {
				s.c.Bytes = 1 << 30
			}
		}
		if c.src.Version == "" {
			c.src.Version = "1"
		}
		_, release, err := s.Fetch(t.Context(), &c.src, nil)
		if c.want == "" { // only config.yaml
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			release()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 || s.reserved != 0 || s.kept != 0 { // the lock
			t.Errorf("%s: left %v", what, left)
		}
	}
	if _, err := openBucket(t.Context(), &url.URL{Scheme: "ftp"}); err == nil {
		t.Error("a bucket of no store")
	}
}

// The bound holds: the least recently used go first, what somebody has stays, and what does not
// fit beside that is refused.
func TestBound(t *testing.T) {
	s := open(t, Config{Bytes: 100})
	source := func(name string, n int) catalog.Source {
		return catalog.Source{Version: "1", URL: put(t, t.TempDir(), map[string]string{"config.yaml": "", "1/model.onnx": name + strings.Repeat("x", n-len(name))})}
	}
	a, b, c, d := source("a", 40), source("b", 40), source("c", 40), source("d", 90)
	dirA, releaseA := get(t, s, a)
	dirB, releaseB := get(t, s, b)
	releaseA()
	releaseB()
	_, releaseA = get(t, s, a) // used again: b is older (without a digest it is fetched, and is the same)
	releaseA()
	dirC, releaseC := get(t, s, c)
	if _, err := os.Stat(dirB); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the least recently used one is still there: %v", err)
	}
	for _, dir := range []string{dirA, dirC} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if s.Bytes() != 80 {
		t.Errorf("%d bytes are kept", s.Bytes())
	}
	if _, _, err := s.Fetch(t.Context(), &d, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("beside what is in use: %v", err)
	}
	releaseC()
	_, releaseD := get(t, s, d)
	defer releaseD()
	if s.Bytes() != 90 {
		t.Errorf("%d bytes are kept", s.Bytes())
	}
}

// What a crash leaves is removed at the next start: parts, folders that are not whole. The rest
// is there again, and its order of use. A folder is one process's.
func TestAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	var digests []string
	for i := range 4 {
		at, release := get(t, s, catalog.Source{Version: "1", URL: model(t, fmt.Sprint("weights", i))})
		release()
		digests = append(digests, filepath.Dir(at))
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(filepath.Dir(at), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a folder for two: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, dir, map[string]string{"part-1/files/config.yaml": "a", "00112233445566778899aabbccddeeff/files/config.yaml": "a", "notes.txt": "mine", "mine/x": "y"})
	if err := os.Truncate(filepath.Join(digests[3], "files", "1", "model.onnx"), 2); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(digests[2], "manifest"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	var warned []error
	s = open(t, Config{Dir: dir, Warn: func(err error) { warned = append(warned, err) }})
	if len(warned) != 3 || len(s.items) != 2 {
		t.Errorf("%d items, warned %v", len(s.items), warned)
	}
	var names []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{filepath.Base(digests[0]), filepath.Base(digests[1]), "lock", "mine", "notes.txt", originsFile}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("there is %v, want %v", names, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: dir, Bytes: s.Bytes() - 1}) // the bound is lower now
	if _, err := os.Stat(digests[0]); !errors.Is(err, os.ErrNotExist) || len(s.items) != 1 {
		t.Errorf("the older one is still there: %v", err)
	}
}

// A fetch that is given up ends, leaves nothing, and one of the same that waits for it goes on.
func TestGivenUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Rate: 1 << 20, Parallel: 1})
	defer s.Close()
	src := catalog.Source{Version: "1", URL: model(t, string(bytes.Repeat([]byte("w"), 600<<10)))}
	src.Digest, _, _ = DigestOf(src.URL, "1")
	ctx, cancel := context.WithCancel(t.Context())
	var begun sync.Once
	started := make(chan struct{})
	ended := make(chan error, 2)
	go func() {
		_, _, err := s.Fetch(ctx, &src, func(int64, int64) { begun.Do(func() { close(started) }) })
		ended <- err
	}()
	<-started
	go func() {
		_, release, err := s.Fetch(t.Context(), &src, nil)
		if err == nil {
			release()
		}
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the other one: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 || s.reserved != 0 {
		t.Errorf("left %v", left)
	}
	s.turns <- struct{}{} // none may be fetched now
	src.Digest = ""
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, err := s.Fetch(ctx, &src, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a turn: %v", err)
	}
	<-s.turns
}

// The rate holds over all that is fetched: 3 pieces of 64 KiB at 1 MiB/s are 3/16 s.
func TestRate(t *testing.T) {
	r := rate{perSecond: 1 << 20}
	begin := time.Now()
	for range 3 {
		if err := r.take(t.Context(), 64<<10); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 180*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

// SumOf is what Fetch checks, of a folder and of its URL; without a version it is the only one.
func TestSumOf(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("config.yaml", "platform: emulated")
	if sum, err := SumOf(t.Context(), dir, ""); err != nil || sum.Files != 1 {
		t.Errorf("an emulated model: %+v, %v", sum, err)
	}
	put("2/model.onnx", "weights")
	put("notes/readme", "no version")
	want, bytes, err := DigestOf(dir, "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{dir, "file://" + dir} {
		sum, err := SumOf(t.Context(), address, "")
		if err != nil || sum != (Sum{"2", want, 2, bytes}) {
			t.Errorf("%s: %+v, %v, want %s", address, sum, err, want)
		}
	}
	s, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at, release, err := s.Fetch(t.Context(), &catalog.Source{Name: "m", Version: "2", URL: dir, Digest: want}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	put("2/model.onnx", "other weights")
	if d, n, err := s.Digest(at, "2"); d != want || n != bytes || err != nil {
		t.Errorf("of what was fetched: %s, %d, %v", d, n, err)
	}
	put("3/model.onnx", "weights")
	if _, err := SumOf(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), "2, 3") {
		t.Errorf("two versions: %v", err)
	}
	if _, err := SumOf(t.Context(), filepath.Join(dir, "nowhere"), "2"); err == nil {
		t.Error("there is nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := SumOf(ctx, dir, "2"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
