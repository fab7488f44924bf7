package ingress

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"
)

// route is one path of the API.
type route struct {
	name     string // in metrics
	method   string // GET answers HEAD too
	pattern  string // {model}, {version} and {name} stand for any one segment
	text     string // for the index
	serve    func(*Server, *exchange) error
	door     door // that it may be moved to
	segments []string
}

// table lists the routes; those asked for most come first.
func table() []route {
	const m = "/v2/models/{model}"
	const v = m + "/versions/{version}"
	routes := []route{
		{name: "infer", method: "POST", pattern: m + "/infer", text: "inference (Open Inference Protocol)", serve: (*Server).infer},
		{name: "infer", method: "POST", pattern: v + "/infer", serve: (*Server).infer},
		{name: "classify", method: "POST", pattern: "/v1/classify/{model}", text: "a PNG or JPEG to labels; ?k= the best k", serve: (*Server).classify},
		{name: "classify", method: "POST", pattern: "/v1/classify/{model}/versions/{version}", serve: (*Server).classify},
		{name: "metrics", method: "GET", pattern: "/metrics", text: "for Prometheus", serve: (*Server).exposition},
		{name: "live", method: "GET", pattern: "/v2/health/live", text: "does the server run", serve: (*Server).live},
		{name: "ready", method: "GET", pattern: "/v2/health/ready", text: "can it serve", serve: (*Server).ready},
		{name: "model_ready", method: "GET", pattern: m + "/ready", text: "can it serve this model", serve: (*Server).modelReady},
		{name: "model_ready", method: "GET", pattern: v + "/ready", serve: (*Server).modelReady},
		{name: "server_metadata", method: "GET", pattern: "/v2", text: "name, version, extensions", serve: (*Server).serverMetadata},
		{name: "openapi", method: "GET", pattern: "/v2/openapi.json", text: "this API as OpenAPI 3.1", serve: (*Server).openapi},
		{name: "stats", method: "GET", pattern: "/v2/models/stats", text: "counts and times of all models", serve: (*Server).statsAll},
		{name: "model_metadata", method: "GET", pattern: m, text: "inputs and outputs", serve: (*Server).modelMetadata},
		{name: "model_metadata", method: "GET", pattern: v, serve: (*Server).modelMetadata},
		{name: "model_config", method: "GET", pattern: m + "/config", text: "as Triton tells it", serve: (*Server).modelConfig},
		{name: "model_config", method: "GET", pattern: v + "/config", serve: (*Server).modelConfig},
		{name: "stats", method: "GET", pattern: m + "/stats", text: "counts and times", serve: (*Server).statsOne},
		{name: "stats", method: "GET", pattern: v + "/stats", serve: (*Server).statsOne},
		{name: "repository", method: "POST", pattern: "/v2/repository/index", text: "all models", serve: (*Server).repositoryIndex},
		{name: "repository", method: "POST", pattern: "/v2/repository/models/{model}/load", serve: (*Server).load},
		{name: "repository", method: "POST", pattern: "/v2/repository/models/{model}/unload", serve: (*Server).unload},
		{name: "settings", method: "GET", pattern: "/v2/logging", serve: (*Server).logSettings},
		{name: "settings", method: "POST", pattern: "/v2/logging", serve: (*Server).changeLogSettings},
		{name: "settings", method: "GET", pattern: "/v2/trace/setting", serve: (*Server).traceSettings},
		{name: "settings", method: "POST", pattern: "/v2/trace/setting", serve: (*Server).changeTraceSettings},
		{name: "settings", method: "GET", pattern: m + "/trace/setting", serve: (*Server).traceSettings},
		{name: "settings", method: "POST", pattern: m + "/trace/setting", serve: (*Server).changeTraceSettings},
	}
	const system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
	routes = append(routes,
		route{name: "shared_memory", method: "GET", pattern: system + "/status", text: "regions of clients on this host", serve: (*Server).regionsStatus},
		route{name: "shared_memory", method: "GET", pattern: system + "/region/{name}/status", serve: (*Server).regionsStatus},
		route{name: "shared_memory", method: "POST", pattern: system + "/region/{name}/register", serve: (*Server).registerRegion},
		route{name: "shared_memory", method: "POST", pattern: system + "/region/{name}/unregister", serve: (*Server).unregisterRegion},
		route{name: "shared_memory", method: "POST", pattern: system + "/unregister", serve: (*Server).unregisterRegion},
		route{name: "shared_memory", method: "GET", pattern: cuda + "/status", serve: (*Server).noRegions},
		route{name: "shared_memory", method: "GET", pattern: cuda + "/region/{name}/status", serve: (*Server).noRegion},
		route{name: "shared_memory", method: "POST", pattern: cuda + "/region/{name}/register", serve: (*Server).noSharedMemory},
		route{name: "shared_memory", method: "POST", pattern: cuda + "/region/{name}/unregister", serve: (*Server).nothing},
		route{name: "shared_memory", method: "POST", pattern: cuda + "/unregister", serve: (*Server).nothing})
	routes = append(routes, route{name: "index", method: "GET", pattern: "/", text: "this page", serve: (*Server).index})
	for i := range routes {
		switch routes[i].name {
		case "metrics", "stats":
			routes[i].door = watchDoor
		case "repository", "settings", "shared_memory":
			routes[i].door = adminDoor
		}
		routes[i].segments = strings.Split(strings.Trim(routes[i].pattern, "/"), "/")
	}
	return routes
}

const segmentsMax = 8

// find matches the path, as sent: a model's name may have an escaped slash.
func (s *Server) find(x *exchange) (*route, error) {
	path := x.ctx.URI().PathOriginal()
	var segments [segmentsMax][]byte
	n, ok := split(path, &segments)
	allowed := ""
	for i := range s.routes {
		r := &s.routes[i]
		if !ok || len(r.segments) != n || !x.match(r, segments[:n]) {
			continue
		}
		if !s.served(r, x.door) {
			return nil, &refusal{status: 404, reason: "not_found", msg: x.door.elsewhere()}
		}
		method := x.ctx.Method()
		if string(method) == r.method || r.method == "GET" && string(method) == "HEAD" {
			return r, x.unescape()
		}
		if allowed != "" {
			allowed += ", "
		}
		allowed += r.method
	}
	if allowed != "" {
		x.ctx.Response.Header.Set("Allow", allowed)
		return nil, &refusal{status: 405, reason: "method", msg: string(x.ctx.Method()) + " is not allowed here, only " + allowed}
	}
	if x.door != mainDoor {
		return nil, &refusal{status: 404, reason: "not_found", msg: x.door.elsewhere()}
	}
	return nil, &refusal{status: 404, reason: "not_found", msg: "no such path; GET / lists what there is"}
}

func split(path []byte, segments *[segmentsMax][]byte) (int, bool) {
	for len(path) > 0 && path[0] == '/' {
		path = path[1:]
		break
	}
	if len(path) > 0 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	n := 0
	for from, i := 0, 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			if n == segmentsMax {
				return 0, false
			}
			segments[n] = path[from:i]
			n++
			from = i + 1
		}
	}
	return n, true
}

// match compares segment by segment and notes what stands for model and
// version.
func (x *exchange) match(r *route, segments [][]byte) bool {
	x.name, x.versionName, x.region = nil, nil, nil
	for i, want := range r.segments {
		got := segments[i]
		switch want {
		case "{model}":
			x.name = got
		case "{version}":
			x.versionName = got
		case "{name}":
			x.region = got
		default:
			if string(got) != want {
				return false
			}
			continue
		}
		if len(got) == 0 {
			return false
		}
	}
	return true
}

// unescape makes the strings that the catalogue is asked with.
func (x *exchange) unescape() error {
	var err error
	if string(x.name) != x.model || bytes.IndexByte(x.name, '%') >= 0 { // as a rule it is that of x's last request
		x.model, err = url.PathUnescape(string(x.name))
	}
	if err == nil {
		x.version, err = url.PathUnescape(string(x.versionName))
	}
	if err != nil {
		return &refusal{status: fasthttp.StatusBadRequest, reason: "bad_request", msg: "path: " + err.Error()}
	}
	return nil
}
