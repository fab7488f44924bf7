package shelf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// While a source is away, what came from there last serves, also in the next life, and that is
// said; once it is back, what is there now does. Who orders a digest gets that one, or nothing.
func TestSourceAway(t *testing.T) {
	dir, cache := model(t, "weights"), t.TempDir()
	away := dir + "-away"
	src := catalog.Source{Name: "m", Version: "1", URL: dir}
	var said []string
	warn := func(err error) { said = append(said, err.Error()) }
	move := func(from, to string) { must(t, os.Rename(from, to)) }
	life := func(f func(s *Shelf)) {
		t.Helper()
		s := open(t, Config{Dir: cache, Warn: warn})
		f(s)
		must(t, s.Close())
	}
	weights := func(s *Shelf, want string) {
		t.Helper()
		at, release := get(t, s, src)
		defer release()
		if got := have(t, at)["1/model.onnx"]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	refused := func(s *Shelf, src catalog.Source) {
		t.Helper()
		if _, _, err := s.Fetch(t.Context(), &src, nil); err == nil {
			t.Errorf("%+v was not refused", src)
		}
	}
	life(func(s *Shelf) { weights(s, "weights") })
	put(t, dir, map[string]string{"1/model.onnx": "newer"})
	life(func(s *Shelf) { weights(s, "newer") })
	if len(said) != 0 {
		t.Errorf("said: %q", said)
	}
	move(dir, away)
	must(t, appendTo(filepath.Join(cache, originsFile), "0123")) // a crash's
	life(func(s *Shelf) {
		weights(s, "newer")
		if len(said) != 1 || !strings.Contains(said[0], "m/1") || !strings.Contains(said[0], "was fetched before") {
			t.Errorf("said: %q", said)
		}
		other := src
		other.Version = "2"
		refused(s, other)
		other = src
		other.Digest = catalog.DigestOf([]byte("another one"))
		refused(s, other)
	})
	move(away, dir)
	put(t, dir, map[string]string{"1/model.onnx": "newest"})
	life(func(s *Shelf) { weights(s, "newest") })
	if text, err := os.ReadFile(filepath.Join(cache, originsFile)); err != nil || strings.Contains(string(text), dir) {
		t.Errorf("addresses may have secrets in them: %s, %v", text, err)
	}
	move(dir, away)
	life(func(s *Shelf) {
		s.c.Bytes = 1 // nothing of it is kept
		s.mu.Lock()
		_ = s.roomLocked(0)
		s.mu.Unlock()
		refused(s, src)
	})
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return firstOf(err, f.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
