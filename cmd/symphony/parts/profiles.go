package parts

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
)

const (
	// profileMax is the longest profile, in seconds.
	profileMax = 120
	// profilesMax is how many are taken at a time.
	profilesMax = 4
)

// profiles are those of the Go runtime. Whoever reaches them can slow the process down and read what
// is in its memory's profiles. The command line is not served: a token may be on it.
func profiles() http.Handler {
	mux := http.NewServeMux()
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
