package parts

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
)

// ServeMetrics answers /metrics, and whether the parts are well, for processes without the HTTP ingress.
func (p *Process) ServeMetrics() error {
	if p.cfg.Metrics == "" {
		return nil
	}
	ln, err := net.Listen("tcp", p.cfg.Metrics)
	if err != nil {
		return cli.InUse(fmt.Errorf("metrics: %w", err), "--metrics")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	p.vitals.serve(mux)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 { // as in api.Handler
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	}), ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(ln) // ends with the process
	p.Log.Info().Str("address", "http://"+ln.Addr().String()+"/metrics").Msg("metrics")
	return nil
}
