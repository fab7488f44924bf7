package ingress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/nearest"
)

// orderMax is the largest body of a repository call, or of one that changes settings.
const orderMax = 64 << 10

// order reads the body of such a call: a JSON object of the known keys, or nothing.
func (s *Server) order(x *exchange, known ...string) (object, error) {
	tooLarge := &refusal{status: 413, reason: "too_large", msg: fmt.Sprintf("the body of such a call is above %d bytes", orderMax), close: true}
	if x.ctx.Request.Header.ContentLength() > orderMax {
		return nil, tooLarge
	}
	body, err := s.body(x)
	switch {
	case err != nil:
		return nil, err
	case len(body) > orderMax:
		tooLarge.close = false
		return nil, tooLarge
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	return objectOf(body, "", "field", known...)
}

// objectOf reads a JSON object of known keys; at is where it stands.
func objectOf(text []byte, at, what string, known ...string) (object, error) {
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		where := "the body"
		if at != "" {
			where = strings.TrimSuffix(at, ".")
		}
		return nil, badRequest("%s: no JSON object: %v", where, err)
	}
	return o, knownKeys(o, at, what, known...)
}

func knownKeys(o object, at, what string, known ...string) error {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(known, key) {
			return badRequest("%s%s: there is no such %s%s", at, key, what, nearest.Text(key, known))
		}
	}
	return nil
}

// indexOrder reads {"ready": BOOL}.
func (s *Server) indexOrder(x *exchange) (ready bool, err error) {
	o, err := s.order(x, "ready")
	if v, ok := o["ready"]; err == nil && ok {
		if ready, ok = v.(bool); !ok {
			return false, badRequest("ready: must be true or false")
		}
	}
	return ready, err
}

// parameters are those of a load or unload.
func (s *Server) parameters(x *exchange, known ...string) (object, error) {
	o, err := s.order(x, "parameters")
	if err != nil || o["parameters"] == nil {
		return nil, err
	}
	p, ok := o["parameters"].(object)
	if !ok {
		return nil, badRequest("parameters: must be an object")
	}
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if strings.HasPrefix(key, "file:") {
			return nil, badRequest("parameters.%s: models' files are not taken in requests: put them where backends reach them, and symphony model add NAME/VERSION --source URL", key)
		}
	}
	return p, knownKeys(p, "parameters.", "parameter", known...)
}

// unloadOrder reads a call that can say nothing: there are no models that depend on others.
func (s *Server) unloadOrder(x *exchange) error {
	p, err := s.parameters(x, "unload_dependents")
	if v, ok := p["unload_dependents"]; err == nil && ok {
		if _, ok := v.(bool); !ok {
			return badRequest("parameters.unload_dependents: must be true or false")
		}
	}
	return err
}

// loadOrder reads {"parameters": {"config": "JSON"}}. Of Triton's model configuration what
// can change while a model is served is taken: max_batch_size, version_policy, and of its
// parameters slo_ms and drop_policy. The rest may be there as .../config tells it, and is
// refused where it differs.
func (s *Server) loadOrder(x *exchange) (o Override, err error) {
	p, err := s.parameters(x, "config")
	if err != nil || p["config"] == nil {
		return o, err
	}
	text, ok := p["config"].(string)
	if !ok {
		return o, badRequest("parameters.config: must be a text with the configuration's JSON in it")
	}
	return s.override(x.model, text)
}

// override reads the configuration of a load.
func (s *Server) override(model, text string) (o Override, err error) {
	const at = "parameters.config."
	now := s.configNow(model)
	config, err := objectOf([]byte(text), at, "field", "name", "platform", "backend", "version_policy", "max_batch_size", "input", "output",
		"instance_group", "model_transaction_policy", "dynamic_batching", "parameters")
	if err != nil {
		return o, err
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		value, same := config[key], now != nil && reflect.DeepEqual(config[key], now[key])
		switch {
		case key == "name" && value == any(model) || same && key != "max_batch_size" && key != "version_policy" && key != "parameters":
		case key == "max_batch_size":
			o.MaxBatch, err = batchOf(value, at+key)
		case key == "version_policy" && !same:
			o.Versions, err = policyOf(value, at+key)
		case key == "version_policy":
		case key == "parameters":
			err = o.settings(value, now, at+key+".")
		default:
			err = badRequest("%s%s: a load cannot change it: it is what the model's config.yaml and files say", at, key)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// configNow is the model's configuration as .../config tells it, or nil.
func (s *Server) configNow(model string) (now object) {
	e, err := s.cfg.Client.Model(model, "")
	if err != nil {
		return nil
	}
	b, err := json.Marshal(s.configOf(&e))
	if err != nil || json.Unmarshal(b, &now) != nil {
		return nil
	}
	return now
}

func batchOf(v any, at string) (*int, error) {
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) || n < 1 || n > 1024 {
		return nil, badRequest("%s: must be a whole number from 1 to 1024", at)
	}
	batch := int(n)
	return &batch, nil
}

// policyOf reads {"latest": {"num_versions": N}}, {"all": {}} or {"specific": {"versions": [N]}}.
func policyOf(v any, at string) (*VersionPolicy, error) {
	wrong := badRequest(`%s: must be {"latest": {"num_versions": N}}, {"all": {}} or {"specific": {"versions": [N, ...]}}`, at)
	o, _ := v.(object)
	if len(o) != 1 {
		return nil, wrong
	}
	for kind, v := range o {
		of, ok := v.(object)
		switch {
		case !ok:
		case kind == "all" && len(of) == 0:
			return &VersionPolicy{All: true}, nil
		case kind == "latest" && len(of) <= 1:
			n, ok := of["num_versions"].(float64)
			if len(of) == 0 {
				n, ok = 1, true
			}
			if ok && n >= 1 && n <= 32 && n == math.Trunc(n) {
				return &VersionPolicy{Latest: int(n)}, nil
			}
		case kind == "specific" && len(of) == 1:
			list, _ := of["versions"].([]any)
			p := &VersionPolicy{}
			for _, v := range list {
				text := fmt.Sprint(v) // numbers of 64 bits may be texts
				if n, ok := v.(float64); ok && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
					text = strconv.FormatInt(int64(n), 10)
				}
				if catalog.CheckVersion(text) != nil {
					return nil, wrong
				}
				p.Specific = append(p.Specific, text)
			}
			if len(p.Specific) > 0 {
				return p, nil
			}
		}
	}
	return nil, wrong
}

// settings reads {"slo_ms": {"string_value": "50"}, "drop_policy": {"string_value": "head"}}.
func (o *Override) settings(v any, now object, at string) error {
	p, ok := v.(object)
	if !ok {
		return badRequest("%s: must be an object", strings.TrimSuffix(at, "."))
	}
	if err := knownKeys(p, at, "parameter", "slo_ms", "drop_policy", "device_type"); err != nil {
		return err
	}
	before, _ := now["parameters"].(object)
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if reflect.DeepEqual(p[key], before[key]) {
			continue
		}
		of, _ := p[key].(object)
		text, ok := of["string_value"].(string)
		switch slo, err := strconv.ParseFloat(text, 64); {
		case !ok || len(of) != 1:
			return badRequest(`%s%s: must be {"string_value": "..."}`, at, key)
		case key == "device_type":
			return badRequest("%s%s: a load cannot change it", at, key)
		case key == "slo_ms" && (err != nil || !(slo > 0 && slo <= float64(time.Hour/time.Millisecond))):
			return badRequest("%s%s: %q must be above 0 and at most %d milliseconds", at, key, text, time.Hour/time.Millisecond)
		case key == "slo_ms":
			d := time.Duration(slo * float64(time.Millisecond))
			o.SLO = &d
		case text != "target" && text != "head":
			return badRequest("%s%s: %q is none of target, head", at, key, text)
		default:
			o.DropPolicy = &text
		}
	}
	return nil
}
