package frontend

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model that is loading, or failed, is not unknown: by its name, and by its version beside others that are served.
func TestPending(t *testing.T) {
	h := newHave(t, 1)
	pend := func(all ...catalog.Pending) { h.change(0, catalog.Changes{Pending: all}) }
	ask := func(version string) *Error {
		t.Helper()
		_, err := h.Infer(context.Background(), Request{Model: "m", Version: version})
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("version %q: %v", version, err)
		}
		return e
	}
	if e := ask(""); e.Kind != ErrUnknownModel {
		t.Error(e)
	}
	pend(catalog.Pending{Name: "m", Version: "1", State: catalog.StateLoading})
	if e := ask(""); !errors.Is(e, ErrUnavailable) || !errors.Is(e, ErrLoading) || !strings.Contains(e.Error(), "m/1") || !strings.Contains(e.Error(), "being loaded") {
		t.Error(e)
	}
	if e := ask("2"); e.Kind != ErrUnknownModel {
		t.Error(e)
	}
	pend(catalog.Pending{Name: "m", Version: "2", State: catalog.StateFailed, Why: "no such operator"})
	if e := ask("2"); !errors.Is(e, ErrUnavailable) || errors.Is(e, ErrLoading) || !strings.Contains(e.Error(), "no such operator") {
		t.Error(e)
	}
	if e := ask(""); !errors.Is(e, ErrLoading) { // the one that comes, not the one that failed
		t.Error(e)
	}
	h.tell(0, catalog.Served{ID: 1, DeviceType: "e", Spec: specOf("m", "1")})
	pend(catalog.Pending{Name: "m", Version: "1"})
	if m, err := h.Model("m", ""); err != nil || m.Spec.Version != "1" {
		t.Errorf("%+v, %v", m, err)
	}
	if e := ask("2"); !strings.Contains(e.Error(), "no such operator") {
		t.Error(e)
	}
	pend(catalog.Pending{Name: "m", Version: "2"})
	if e := ask("2"); e.Kind != ErrUnknownModel {
		t.Error(e)
	}
	h.change(0, catalog.Changes{Gone: []wire.ModelID{1}})
	if e := ask(""); e.Kind != ErrUnknownModel {
		t.Error(e)
	}
}

// Items of one request that ran before and after an exchange of files are no answer; those of one side are, and so is what
// ran while nothing was exchanged.
func TestOfOneModel(t *testing.T) {
	const before, after = wire.OutputBefore, wire.OutputAfter
	for _, c := range []struct {
		flags []wire.OutputFlags
		ok    bool
	}{{nil, true}, {[]wire.OutputFlags{0, 0}, true}, {[]wire.OutputFlags{before, before, 0}, true}, {[]wire.OutputFlags{0, after}, true}, {[]wire.OutputFlags{before, 0, after}, false}} {
		var all []*Response
		for _, f := range c.flags {
			all = append(all, &Response{exchanged: f})
		}
		if err := OfOneModel(all); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrLoading) {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
}
