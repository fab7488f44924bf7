package parts

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// Profiles are served at the admin address, and at none of the others that a process has.
func TestProfilesOnlyAtTheAdminAddress(t *testing.T) {
	p := process(t, config.Set{Key: "admin", Value: "127.0.0.1:0"}, config.Set{Key: "metrics", Value: "127.0.0.1:0"}, config.Set{Key: "frontend.admin", Value: "127.0.0.1:0"},
		config.Set{Key: "scheduler.listen", Value: "inproc:profiles"}, config.Set{Key: "frontend.scheduler", Value: "inproc:profiles"},
		config.Set{Key: "frontend.listen", Value: "inproc:profiles-data"})
	if err := p.ServeAdmin(); err != nil {
		t.Fatal(err)
	}
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w, err := p.Ingress(client)
	if err != nil {
		t.Fatal(err)
	}
	limit, cancel := p.DrainContext()
	defer cancel()
	defer w.Drain(limit)
	admin := "http://" + p.admin.address
	defer p.CloseAdmin()
	ask(t, "GET", admin+"/", "", 200, "heap")
	ask(t, "GET", admin+"/debug/pprof/", "", 200, "goroutine")
	ask(t, "GET", admin+"/debug/pprof/goroutine?debug=1", "", 200, "TestProfilesOnlyAtTheAdminAddress")
	ask(t, "GET", admin+"/debug/pprof/heap", "", 200, "")
	ask(t, "GET", admin+"/debug/pprof/cmdline", "", 404, "")
	ask(t, "GET", admin+"/debug/pprof/profile?seconds=1000", "", 400, "must be 1 to 120")
	ask(t, "GET", admin+"/debug/pprof/profile?seconds=x", "", 400, "must be 1 to 120")
	ask(t, "GET", admin+"/metrics", "", 404, "")
	for _, other := range []string{w.Address, w.Metrics, w.Admin} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/cmdline"} {
			ask(t, "GET", "http://"+other+path, "", 404, "error")
		}
	}
	second := process(t, config.Set{Key: "admin", Value: p.admin.address})
	if err := second.ServeAdmin(); err == nil || !strings.Contains(err.Error(), "--set admin=") {
		t.Errorf("an address in use: %v", err)
	}
	if err := process(t).ServeAdmin(); err != nil {
		t.Errorf("none configured: %v", err)
	}
}

// More calls than may be answered at a time are told so, and those before them are answered.
func TestProfilesAreBounded(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(bounded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-release
	})))
	defer server.Close()
	answers := make(chan int, profilesMax)
	for range profilesMax {
		go func() {
			r, err := http.Get(server.URL)
			if err != nil {
				answers <- 0
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			answers <- r.StatusCode
		}()
	}
	for range profilesMax {
		<-begun
	}
	ask(t, "GET", server.URL, "", 503, "try again")
	close(release)
	for range profilesMax {
		if status := <-answers; status != 200 {
			t.Errorf("status %d", status)
		}
	}
}

// The access log is opened and closed with the ingress; one that cannot be opened is said with its key.
func TestAccessLogOfAFrontend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	keys := []config.Set{{Key: "frontend.access_log", Value: path}, {Key: "frontend.scheduler", Value: "inproc:nobody"}, {Key: "frontend.listen", Value: "inproc:access-data"}}
	p := process(t, keys...)
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w, err := p.Ingress(client)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, "GET", "http://"+w.Address+"/v2", "", 200, "symphony")
	ask(t, "GET", "http://"+w.Address+"/metrics", "", 200, `symphony_access_log_lines_total{what="lost"} 0`)
	limit, cancel := p.DrainContext()
	defer cancel()
	if err := w.Drain(limit); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"route":"server_metadata"`) {
		t.Errorf("%q, %v", text, err)
	}
	keys[0].Value = filepath.Join(path, "none")
	if _, err := process(t, keys...).Ingress(client); err == nil || !strings.Contains(err.Error(), "frontend.access_log") {
		t.Errorf("a file that cannot be opened: %v", err)
	}
}
