package parts

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/frontend/recording"
	"github.com/symphony-serving/symphony/frontend/tracing"
)

// TestFilesAreClosedBeforeTraces: a collector that answers only once the recording is closed does get the traces.
func TestFilesAreClosedBeforeTraces(t *testing.T) {
	files := prometheus.NewRegistry()
	asked := make(chan struct{}, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		for r.Context().Err() == nil {
			if all, err := files.Gather(); err == nil && len(all) == 0 { // a closed one has no metrics
				return
			}
			time.Sleep(time.Millisecond)
		}
	}))
	defer collector.Close()
	record, err := recording.Open(recording.Config{Path: filepath.Join(t.TempDir(), "r.csv"), Metrics: files})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 9)
	tracer, err := tracing.Open(tracing.Config{Endpoint: collector.URL, Share: 1, Failed: func(err error) { failed <- err }})
	if err != nil {
		t.Fatal(err)
	}
	tracer.End(&tracing.Record{Context: tracer.Begin(nil), Protocol: "http", Began: 1, Ended: 2})
	<-asked
	a := accounts{tracer: tracer, record: record}
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if len(failed) != 0 {
		t.Error(<-failed)
	}
}
