package parts

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/scheduler/watch/ui"
)

// admin is the address for people who run a scheduler: the live picture, and questions about
// the schedule. It is apart from /metrics, which others may be let to.
type admin struct {
	scheduler atomic.Pointer[server.Server] // of now
	control   atomic.Pointer[string]        // URL of the control plane's API; nil: none is known
	hub       *ui.Hub
	server    *http.Server
	address   string
}

// adminDefault is where serve has it when nobody says so; if that is taken, a free port will do.
const adminDefault = "127.0.0.1:8003"

// ServeAdmin opens the admin address. beside: it is serve's, which has one in any case.
func (p *Process) ServeAdmin(beside bool) error {
	address := p.cfg.Admin
	if address == "" && beside {
		address = adminDefault
	}
	if address == "" {
		return nil
	}
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && p.cfg.Admin == "" {
		p.Log.Warn().Str("address", address).Msg("another scheduler's live picture is there: this one takes a free port; admin sets one")
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return cli.InUse(fmt.Errorf("admin: %w", err), "--admin")
	}
	a := &p.admin
	a.address = ln.Addr().String()
	if host, _, err := net.SplitHostPort(a.address); err == nil && !net.ParseIP(host).IsLoopback() {
		p.Log.Warn().Str("admin", a.address).Msg("this address may be reached from other hosts, and asks nobody who he is: whoever reaches it sees models, loads and the numbers of requests, though no inputs and outputs")
	}
	if a.control.Load() == nil && p.cfg.Frontend.Control != "" {
		a.control.Store(&p.cfg.Frontend.Control)
	}
	a.hub = ui.NewHub(ui.Config{Source: a.source, Texts: p.texts(), Always: p.cfg.Scheduler.Watch == "always"})
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	a.hub.Register(mux)
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go a.server.Serve(ln) // until CloseAdmin
	p.Log.Info().Str("address", p.AdminURL()).Msg("the live picture of the schedule")
	return nil
}

// AdminURL is where the page is; "" where there is none.
func (p *Process) AdminURL() string {
	if p.admin.address == "" {
		return ""
	}
	return "http://" + p.admin.address + "/ui/"
}

// CloseAdmin ends it, and who follows.
func (p *Process) CloseAdmin() {
	if p.admin.server == nil {
		return
	}
	p.admin.hub.Close()
	_ = p.admin.server.Close()
}

// source is the scheduler of now, for the hub; nil: there is none at the moment.
func (a *admin) source() ui.Source {
	if s := a.scheduler.Load(); s != nil {
		return s
	}
	return nil
}

var _ ui.Source = (*server.Server)(nil)

// texts are the control plane's words for the page.
func (p *Process) texts() func() []watch.Info {
	t := &planTexts{token: p.cfg.Token}
	return func() []watch.Info {
		url := p.admin.control.Load()
		if url == nil {
			return nil
		}
		return t.ask(*url)
	}
}
