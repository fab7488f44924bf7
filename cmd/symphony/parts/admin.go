package parts

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
)

// The admin address is for who operates this process, and no other address serves what is here:
//
//	/debug/pprof/   profiles of the Go runtime: what takes time, memory, locks
//
// Whoever reaches it can slow the process down and read what is in its memory's profiles, so it has
// to be configured, and is best one of this host alone. The command line is not served: a token
// may be on it.

const (
	// profileMax is the longest profile, in seconds.
	profileMax = 120
	// profilesMax is how many calls are answered at a time.
	profilesMax = 4
)

// ServeAdmin serves the admin address, where one is configured. It ends with the process.
func (p *Process) ServeAdmin() error {
	if p.cfg.Admin == "" {
		return nil
	}
	ln, err := net.Listen("tcp", p.cfg.Admin)
	if err != nil {
		return cli.InUse(fmt.Errorf("admin: %w", err), "--set admin=HOST:PORT")
	}
	p.AdminAddress = ln.Addr().String()
	if exposed("tcp:" + p.AdminAddress) {
		p.Log.Warn().Str("admin", p.AdminAddress).Msg("this address may be reached from other hosts: whoever reaches it can take profiles of this process. Listen on 127.0.0.1, or let a firewall say who may")
	}
	s := &http.Server{Handler: adminHandler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go s.Serve(ln) // ends with the process
	p.Log.Info().Str("address", "http://"+p.AdminAddress+"/debug/pprof/").Msg("admin: profiles")
	return nil
}

func adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "/debug/pprof/  profiles: go tool pprof http://THIS/debug/pprof/profile?seconds=10")
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	return bounded(mux)
}

// bounded refuses profiles that are too long, and too many at a time.
func bounded(next http.Handler) http.Handler {
	places := make(chan struct{}, profilesMax)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.URL.Query().Get("seconds"); text != "" {
			if n, err := strconv.Atoi(text); err != nil || n < 1 || n > profileMax {
				http.Error(w, fmt.Sprintf("seconds: %q must be 1 to %d", text, profileMax), http.StatusBadRequest)
				return
			}
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d calls are being answered: try again", profilesMax), http.StatusServiceUnavailable)
		}
	})
}
