package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

// A deletion whose answer was lost is done: that the next try finds nothing is no error. Where
// nothing was ever tried it is one, and so it is where the try before was surely not carried out.
func TestDeleteWhoseAnswerWasLost(t *testing.T) {
	f := &fakecontrol.Control{}
	inner := api.New(f, api.Options{})
	cut := 0
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut == 0 || r.Method != "DELETE" {
			inner.ServeHTTP(w, r)
			return
		}
		cut--
		inner.ServeHTTP(httptest.NewRecorder(), r)
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	})
	c := serve(t, h, Options{Patience: time.Minute})
	add := func(version string) {
		if _, err := c.PutVersion(t.Context(), "a", version, api.VersionSpec{Source: "file:///m"}); err != nil {
			t.Fatal(err)
		}
	}
	add("1")
	add("2")
	cut = 1
	if m, err := c.DeleteVersion(t.Context(), "a", "2"); err != nil || len(m.Versions) != 1 || m.Versions[0].Version != "1" {
		t.Errorf("one of two versions: %+v, %v", m, err)
	}
	cut = 1
	if m, err := c.DeleteVersion(t.Context(), "a", "1"); err != nil || m.Name != "a" || len(m.Versions) != 0 {
		t.Errorf("the last version: %+v, %v", m, err)
	}
	add("3")
	cut = 2
	if err := c.DeleteModel(t.Context(), "a"); err != nil {
		t.Errorf("the model: %v", err)
	}
	gone := &api.Error{Kind: api.KindNotFound}
	if err := c.DeleteModel(t.Context(), "a"); !errors.Is(err, gone) {
		t.Errorf("one that was never there: %v", err)
	}
	f.SetAway(api.Away(0, false, "etcd does not answer"))
	time.AfterFunc(20*time.Millisecond, func() { f.SetAway(nil) })
	if _, err := c.DeleteVersion(t.Context(), "b", "1"); !errors.Is(err, gone) {
		t.Errorf("after a try that was not carried out: %v", err)
	}
}
