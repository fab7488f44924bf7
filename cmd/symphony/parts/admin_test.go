package parts

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// The admin address has the page and its questions, and nothing of the others' addresses; where it is
// not configured there is none; a port in use is said with the flag, and serve's own takes another.
func TestAdminAddress(t *testing.T) {
	p := process(t, config.Set{Key: "admin", Value: "127.0.0.1:0"})
	if err := p.ServePicture(false); err != nil {
		t.Fatal(err)
	}
	defer p.CloseAdmin()
	url := strings.TrimSuffix(p.AdminURL(), "/ui/")
	ask(t, "GET", url+"/ui/", "", 200, "Symphony")
	ask(t, "GET", url+"/ui/events", "", 503, "no scheduler here at the moment")
	ask(t, "GET", url+"/ui/story?request=1-1", "", 404, "nothing is known")
	ask(t, "GET", url+"/metrics", "", 404, "")
	ask(t, "POST", url+"/ui/story", "", 405, "")

	none := process(t)
	if err := none.ServePicture(false); err != nil || none.AdminURL() != "" {
		t.Errorf("without admin there is %q, %v", none.AdminURL(), err)
	}
	none.CloseAdmin()
	taken := process(t, config.Set{Key: "admin", Value: strings.TrimPrefix(url, "http://")})
	if err := taken.ServePicture(true); err == nil || !strings.Contains(err.Error(), "--admin") {
		t.Errorf("a port in use: %v, want the flag --admin named", err)
	}
}

// Where nobody said which port, and the usual one is taken, serve's admin address takes a free one.
func TestAdminBeside(t *testing.T) {
	if l, err := net.Listen("tcp", adminDefault); err == nil {
		defer l.Close()
	} // else somebody else has it: as well
	p := process(t)
	if err := p.ServePicture(true); err != nil {
		t.Fatal(err)
	}
	defer p.CloseAdmin()
	if url := p.AdminURL(); url == "" || strings.Contains(url, adminDefault) {
		t.Errorf("it is at %q, want a free port", url)
	}
}

// With scheduler.watch: always the scheduler is watched though nobody looks, and though it is made after the
// admin address.
func TestAdminWatchesAlways(t *testing.T) {
	p := process(t, config.Set{Key: "admin", Value: "127.0.0.1:0"}, config.Set{Key: "scheduler.watch", Value: "always"},
		config.Set{Key: "scheduler.listen", Value: "inproc:always"})
	if err := p.ServePicture(false); err != nil {
		t.Fatal(err)
	}
	defer p.CloseAdmin()
	s, err := p.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// A look at the page would begin it.
	for begin := time.Now(); !s.Watches(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("it is not watched after 20 s")
		}
	}
}

// Pages of other sites get neither the picture nor profiles, whichever process it is.
func TestAdminRefusesOtherSites(t *testing.T) {
	for what, open := range map[string]func(*Process) error{"picture": func(p *Process) error { return p.ServePicture(false) }, "profiles": (*Process).ServeAdmin} {
		p := process(t, config.Set{Key: "admin", Value: "localhost:0"})
		if err := open(p); err != nil {
			t.Fatal(err)
		}
		defer p.CloseAdmin()
		for _, c := range []struct {
			host, site string
			want       int
		}{{"evil.example", "same-origin", 403}, {p.admin.address, "cross-site", 403}, {p.admin.address, "same-site", 403}, {"localhost", "same-origin", 200}} {
			req, err := http.NewRequest("GET", "http://"+p.admin.address+"/debug/pprof/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host, req.Close = c.host, true
			req.Header.Set("Sec-Fetch-Site", c.site)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("%s: host %s, %s: status %d, want %d", what, c.host, c.site, resp.StatusCode, c.want)
			}
		}
	}
}
