package ingress

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// doorway serves another door of s.
func (s *server) doorway(serve func(net.Listener) error) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(l) }()
	s.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
		if err := <-ended; err != nil {
			s.t.Errorf("serve: %v", err)
		}
	})
	return &server{t: s.t, Server: s.Server, fake: s.fake, address: l.Addr().String()}
}

// Each door has what was moved there, and the main one has not; moved or not, one that is
// there serves its own.
func TestDoors(t *testing.T) {
	for _, apart := range []bool{false, true} {
		s := start(t, Config{MetricsApart: apart, AdminApart: apart})
		watch, admin := s.doorway(s.ServeMetrics), s.doorway(s.ServeAdmin)
		for _, c := range []struct {
			method, path string
			at           *server
			text         string
		}{
			{"GET", "/metrics", watch, "symphony_http_requests_in_flight"},
			{"GET", "/v2/models/stats", watch, "model_stats"},
			{"GET", "/v2/models/digits/stats", watch, "model_stats"},
			{"POST", "/v2/repository/index", admin, "digits"},
			{"POST", "/v2/repository/models/digits/load", admin, "{}"},
			{"GET", "/v2/logging", admin, "log_info"},
			{"GET", "/v2/systemsharedmemory/status", admin, "[]"},
			{"GET", "/v2/models/digits", s, "logits"},
			{"GET", "/v2/health/live", s, "live"},
		} {
			for _, door := range []*server{s, watch, admin} {
				switch a := door.do(c.method, c.path, ""); {
				case door == c.at || door == s && !apart:
					door.want(a, 200, c.text)
				default:
					door.want(a, 404, "served on")
				}
			}
		}
		index := string(s.do("GET", "/", "").body)
		if strings.Contains(index, "/metrics") == apart || !strings.Contains(index, "/v1/classify") {
			t.Errorf("apart %v: index %s", apart, index)
		}
	}
}

// A crowd at the main door does not keep the others shut.
func TestDoorsAreCountedApart(t *testing.T) {
	s := start(t, Config{Connections: 1, MetricsApart: true})
	watch := s.doorway(s.ServeMetrics)
	dial(t, s.address)
	waitFor(t, "the crowd", func() bool { return s.Server.open() == 1 })
	watch.want(watch.do("GET", "/metrics", ""), 200, "symphony")
}

// A server is ready when it can serve something, and says what it lacks.
func TestReadyNeedsAModel(t *testing.T) {
	s := start(t, Config{})
	s.want(s.do("GET", "/v2/health/ready", ""), 200, "true")
	s.fake.entries = nil
	s.want(s.do("GET", "/v2/health/ready", ""), 503, "no backend serves any model yet")
	s.want(s.do("GET", "/v2/health/live", ""), 200, "true")
}
