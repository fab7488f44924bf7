package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// object is a JSON object of a reply off the hot path.
type object = map[string]any

// index serves GET /.
func (s *Server) index(x *exchange) error {
	text := "Symphony " + s.cfg.Version + "\n\n"
	for _, r := range s.routes {
		if r.text != "" && s.served(&r, x.door) {
			text += fmt.Sprintf("%-5s %-32s %s\n", r.method, r.pattern, r.text)
		}
	}
	x.ctx.SetContentType("text/plain; charset=utf-8")
	x.ctx.SetBodyString(text)
	return nil
}

// live serves /v2/health/live. Some clients parse the body, some want 200.
func (s *Server) live(x *exchange) error {
	return x.json(200, object{"live": true})
}

// ready serves /v2/health/ready.
func (s *Server) ready(x *exchange) error {
	switch {
	case s.draining.Load():
		return notReady(x, "draining", "the server is shutting down")
	case !s.cfg.Client.Ready():
		return notReady(x, "unavailable", "the scheduler cannot be reached")
	case !s.cfg.Client.Serving():
		return notReady(x, "unavailable", "no backend serves any model yet")
	}
	return x.json(200, object{"ready": true})
}

func notReady(x *exchange, reason, msg string) error {
	x.ctx.Response.Header.Set(reasonHeader, reason)
	writeAfter(x.ctx, pause)
	return x.json(503, object{"ready": false, "error": "not ready: " + msg})
}

// modelReady serves .../ready.
func (s *Server) modelReady(x *exchange) error {
	e, err := s.entry(x)
	if err != nil {
		return err
	}
	switch {
	case s.draining.Load():
		return notReady(x, "draining", "the server is shutting down")
	case !e.Ready || !s.cfg.Client.Ready():
		return notReady(x, "unavailable", "no backend serves model "+e.Spec.Name+" now")
	}
	return x.json(200, object{"name": e.Spec.Name, "ready": true})
}

// serverMetadata serves GET /v2.
func (s *Server) serverMetadata(x *exchange) error { return x.json(200, s.metadata()) }

func (s *Server) metadata() object {
	extensions := []string{"binary_tensor_data", "classification", "model_configuration", "model_repository", "model_repository(unload_dependents)", "schedule_policy", "statistics", "parameters"}
	if s.regions != nil {
		extensions = append(extensions, "system_shared_memory")
	}
	return object{"name": "symphony", "version": s.cfg.Version, "extensions": extensions}
}

// modelMetadata serves GET /v2/models/M.
func (s *Server) modelMetadata(x *exchange) error {
	e, err := s.entry(x)
	if err != nil {
		return err
	}
	return x.json(200, s.metadataOf(&e))
}

func (s *Server) metadataOf(e *catalog.Entry) object {
	tensors := func(specs []catalog.TensorSpec) []object {
		out := make([]object, 0, len(specs))
		for _, t := range specs {
			out = append(out, object{"name": t.Name, "datatype": t.Type, "shape": outer(t.Shape, e.Spec.MaxBatch > 0)})
		}
		return out
	}
	return object{"name": e.Spec.Name, "versions": s.cfg.Client.Versions(e.Spec.Name), "platform": e.Spec.Platform,
		"inputs": tensors(e.Spec.Inputs), "outputs": tensors(e.Spec.Outputs)}
}

// modelConfig serves .../config in the form of Triton's, as far as clients
// read it.
func (s *Server) modelConfig(x *exchange) error {
	e, err := s.entry(x)
	if err != nil {
		return err
	}
	return x.json(200, s.configOf(&e))
}

func (s *Server) configOf(e *catalog.Entry) object {
	m := &e.Spec
	config := object{"name": m.Name, "platform": m.Platform, "backend": "symphony",
		"version_policy": object{"specific": object{"versions": s.cfg.Client.Versions(m.Name)}},
		"max_batch_size": max(m.MaxBatch, 0),
		"input":          configTensors(m.Inputs), "output": configTensors(m.Outputs),
		"instance_group":           []object{{"name": m.Name, "kind": "KIND_MODEL", "count": e.GPUs}},
		"model_transaction_policy": object{"decoupled": false},
		"parameters": object{"slo_ms": object{"string_value": strconv.FormatFloat(m.SLO.Millis(), 'g', -1, 64)},
			"drop_policy": object{"string_value": cmp.Or(m.DropPolicy, "target")},
			"device_type": object{"string_value": e.DeviceType}}}
	if m.MaxBatch > 1 {
		// Triton's levels are queues of which the first goes first whatever is due. Here requests go by deadline, and
		// parameters.priority only where deadlines are equal to the nanosecond: that is no level.
		config["dynamic_batching"] = object{"preferred_batch_size": []int{m.MaxBatch}, "max_queue_delay_microseconds": 0,
			"priority_levels": 0, "default_priority_level": 0}
	}
	return config
}

func configTensors(specs []catalog.TensorSpec) []object {
	out := make([]object, 0, len(specs))
	for _, t := range specs {
		out = append(out, object{"name": t.Name, "data_type": "TYPE_" + string(t.Type), "dims": append([]int64{}, t.Shape...)})
	}
	return out
}

func unsupported(msg string) *refusal {
	return &refusal{status: 501, reason: "unsupported", msg: msg}
}

// nothing answers 200 without content to say.
func (s *Server) nothing(x *exchange) error { return x.json(200, object{}) }

// LogSettings are what clients of Triton may ask for, and nobody can change.
func LogSettings() map[string]any {
	return object{"log_file": "", "log_info": true, "log_warning": true, "log_error": true, "log_verbose_level": 0, "log_format": "default"}
}

// TraceSettings are likewise.
func TraceSettings() map[string]any {
	return object{"trace_level": []string{"OFF"}, "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0", "trace_file": "", "trace_mode": "triton"}
}

// logSettings serves GET /v2/logging.
func (s *Server) logSettings(x *exchange) error {
	return x.json(200, LogSettings())
}

// traceSettings serves GET .../trace/setting, of all models or of one.
func (s *Server) traceSettings(x *exchange) error {
	if x.model != "" {
		if _, err := s.entry(x); err != nil {
			return err
		}
	}
	return x.json(200, TraceSettings())
}

// FixedSettings refuses to change either.
func FixedSettings() error {
	return unsupported("settings are made in the configuration at start, not by request")
}

// changed reads an order to change settings. One that changes nothing asks for them: Triton's clients ask so.
func (s *Server) changed(x *exchange, now object) error {
	o, err := s.order(x, slices.Sorted(maps.Keys(now))...)
	if err == nil && len(o) > 0 {
		return FixedSettings()
	}
	return err
}

func (s *Server) changeLogSettings(x *exchange) error {
	if err := s.changed(x, LogSettings()); err != nil {
		return err
	}
	return s.logSettings(x)
}

// changeTraceSettings serves POST .../trace/setting. A model that is not there comes first, as over gRPC.
func (s *Server) changeTraceSettings(x *exchange) error {
	if x.model != "" {
		if _, err := s.entry(x); err != nil {
			return err
		}
	}
	if err := s.changed(x, TraceSettings()); err != nil {
		return err
	}
	return x.json(200, TraceSettings())
}

// noRegions serves the status of GPUs' shared memory: there is none.
func (s *Server) noRegions(x *exchange) error { return x.json(200, []object{}) }

func (s *Server) noRegion(x *exchange) error {
	return badRequest("no CUDA shared memory region is registered: it is not supported")
}

func (s *Server) noSharedMemory(x *exchange) error {
	return unsupported("CUDA shared memory is not supported: send tensors in the body, or in system shared memory")
}
