package ingress

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// openapiText is the document by hand, of all routes. A test compares it with them, and with what they answer.
//
//go:embed openapi.json
var openapiText []byte

// openapiOf is the document of what is served at the main door.
func (s *Server) openapiOf() ([]byte, error) {
	var doc map[string]json.RawMessage
	var info map[string]any
	var paths map[string]map[string]json.RawMessage
	if err := json.Unmarshal(openapiText, &doc); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	if err := json.Unmarshal(doc["info"], &info); err != nil {
		return nil, fmt.Errorf("openapi.json: info: %w", err)
	}
	if err := json.Unmarshal(doc["paths"], &paths); err != nil {
		return nil, fmt.Errorf("openapi.json: paths: %w", err)
	}
	info["version"] = s.cfg.Version
	served := map[string]map[string]json.RawMessage{}
	for i := range s.routes {
		r := &s.routes[i]
		method := strings.ToLower(r.method)
		if operation, ok := paths[r.pattern][method]; ok && s.served(r, mainDoor) {
			if served[r.pattern] == nil {
				served[r.pattern] = map[string]json.RawMessage{}
			}
			served[r.pattern][method] = operation
		}
	}
	out := map[string]any{"info": info, "paths": served}
	for key, value := range doc {
		if _, ok := out[key]; !ok {
			out[key] = value
		}
	}
	return json.Marshal(out)
}

// openapi serves /v2/openapi.json.
func (s *Server) openapi(x *exchange) error {
	x.ctx.SetContentType("application/json")
	x.ctx.SetBody(s.described)
	return nil
}
