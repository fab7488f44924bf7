package parts

import (
	"context"
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

// admin is the address for who operates a process, and no other address serves what is here:
//
//	/ui/            of a scheduler: the live picture, and questions about the schedule
//	/debug/pprof/   profiles of the Go runtime: what takes time, memory, locks (profiles.go)
//
// It is apart from /metrics, which others may be let to.
type admin struct {
	scheduler atomic.Pointer[server.Server] // of now
	control   atomic.Pointer[string]        // URL of the control plane's API; nil: none is known
	hub       *ui.Hub                       // nil: there is no picture here
	server    *http.Server
	address   string
}

// adminDefault is where serve has it when nobody says so; if that is taken, a free port will do.
const adminDefault = "127.0.0.1:8003"

// ServeAdmin opens the admin address of a process without a scheduler, where one is configured.
func (p *Process) ServeAdmin() error {
	if p.cfg.Admin == "" {
		return nil
	}
	ln, err := net.Listen("tcp", p.cfg.Admin)
	if err != nil {
		return cli.InUse(fmt.Errorf("admin: %w", err), "--set admin=HOST:PORT")
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/debug/pprof/", http.StatusFound))
	p.admin.serve(p, ln, mux, "/debug/pprof/")
	return nil
}

// ServePicture opens that of a scheduler. beside: it is serve's, which has one in any case; profiles
// are there only where somebody said where.
func (p *Process) ServePicture(beside bool) error {
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
	if a.control.Load() == nil && p.cfg.Frontend.Control != "" {
		a.control.Store(&p.cfg.Frontend.Control)
	}
	a.hub = ui.NewHub(ui.Config{Source: a.source, Texts: p.texts(), Always: p.cfg.Scheduler.Watch == "always", Linger: p.cfg.Scheduler.WatchAfter})
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	a.hub.Register(mux)
	a.serve(p, ln, mux, "/ui/")
	return nil
}

// serve begins to answer; path is what to look at there.
func (a *admin) serve(p *Process, ln net.Listener, mux *http.ServeMux, path string) {
	if p.cfg.Admin != "" {
		mux.Handle("/debug/pprof/", profiles())
	}
	a.address = ln.Addr().String()
	if exposed("tcp:" + a.address) {
		p.Log.Warn().Str("admin", a.address).Msg("this address may be reached from other hosts, and asks nobody who he is: whoever reaches it can take profiles of this process, and see models, loads and the numbers of requests, though no inputs and outputs. Listen on 127.0.0.1, or let a firewall say who may")
	}
	a.server = &http.Server{Handler: ui.RefuseOtherSites(mux, p.cfg.Admin), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go a.server.Serve(ln) // until CloseAdmin
	p.Log.Info().Str("address", "http://"+a.address+path).Msg("admin address")
}

// AdminURL is where the page is; "" where there is none.
func (p *Process) AdminURL() string {
	if p.admin.hub == nil {
		return ""
	}
	return "http://" + p.admin.address + "/ui/"
}

// CloseAdmin ends it, and who follows.
func (p *Process) CloseAdmin() {
	if p.admin.server == nil {
		return
	}
	if p.admin.hub != nil {
		p.admin.hub.Close()
	}
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
func (p *Process) texts() func(context.Context) []watch.Info {
	t := &planTexts{token: p.cfg.Token}
	return func(ctx context.Context) []watch.Info {
		url := p.admin.control.Load()
		if url == nil {
			return nil
		}
		return t.ask(ctx, *url)
	}
}
