package backend

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// What was got by an order without a digest is told with its digest, size and own settings, also to
// a scheduler that comes later; an order for the same files by their digest changes nothing, and one
// for others is refused while another device has these.
func TestFilesAreTold(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	src := source(t, "m", "1", "")
	src.SLO = int64(70 * mono.Millisecond)
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{src}})
	got := s.until("m/1", catalog.StateReady, 0)
	want := catalog.DigestOf([]byte(emulatedModel))
	if got.Digest != want || got.Bytes != int64(len(emulatedModel)) || got.Own == nil || got.Own.SLO == nil || *got.Own.SLO != int64(50*mono.Millisecond) || got.Own.MaxBatch != nil || got.Own.DropPolicy != nil {
		t.Errorf("told %+v", got)
	}
	src.Digest = want
	src.URL = "file:///elsewhere" // it is not got again
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{src}})
	if got := s.until("m/1", catalog.StateReady, 0, 1); got.Digest != want {
		t.Errorf("told %+v", got)
	}
	old := s.control()
	old.Close(nil)
	s.wait("a new introduction", func() bool { return s.link != nil && s.link != old })
	s.mu.Lock()
	p := s.info.Pools[0]
	s.mu.Unlock()
	if len(p.Brought) != len(p.Ordered) || len(p.Brought) != 1 || p.Brought[0].Digest != want || p.Brought[0].Own == nil {
		t.Errorf("introduced as %+v", p)
	}
	s.admitted(200)
	other := source(t, "m", "1", "load: 1ms\n")
	other.Digest = catalog.DigestOf([]byte("other"))
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{other}})
	if got := s.until("m/1", catalog.StateFailed, 0, 1); !strings.Contains(got.Error, "other files") {
		t.Errorf("told %+v", got)
	}
	st := s.b.pools[0].stock
	st.mu.Lock()
	e := st.entries["m/1"]
	st.retried(e) // which does not take these files for the others
	if err := e.on[0].err; err == nil {
		t.Error("the device has what was not ordered, and says nothing")
	}
	st.mu.Unlock()
}

// An order that names a digest comes while files are fetched for one that named none: what comes is
// held against it.
func TestDigestWhileFetching(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	src := source(t, "m", "1", "")
	holds := make(chan struct{})
	s.shelf.set(nil, holds)
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{src}})
	s.until("m/1", catalog.StateFetching)
	src.Digest = catalog.DigestOf([]byte("other"))
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{src}})
	st := s.b.pools[0].stock
	s.wait("the second order", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.entries["m/1"].on[1].wanted
	})
	close(holds)
	if got := s.until("m/1", catalog.StateFailed); !strings.Contains(got.Error, string(src.Digest)) {
		t.Errorf("told %+v", got)
	}
}
