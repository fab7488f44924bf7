package grpcin

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
)

// apart refuses what has an address of its own.
func apart(is bool) error {
	if is {
		return status.Error(codes.Unimplemented, "this is served over HTTP alone, on an address of its own (metrics, frontend.admin)")
	}
	return nil
}

// ModelConfig is a model's configuration in Triton's form, as far as there is one.
func (s *Server) ModelConfig(_ context.Context, q *inference.ModelConfigRequest) (*inference.ModelConfigResponse, error) {
	m := &inference.ModelConfig{}
	doc, err := s.cfg.Web.ModelConfig(q.GetName(), q.GetVersion())
	return &inference.ModelConfigResponse{Config: m}, s.answer(q.GetName(), q.GetVersion(), doc, err, m)
}

// ModelStatistics are the counts of both protocols.
func (s *Server) ModelStatistics(_ context.Context, q *inference.ModelStatisticsRequest) (*inference.ModelStatisticsResponse, error) {
	if err := apart(s.cfg.MetricsApart); err != nil {
		return nil, err
	}
	m := &inference.ModelStatisticsResponse{}
	doc, err := s.cfg.Web.Statistics(q.GetName(), q.GetVersion())
	return m, s.answer(q.GetName(), q.GetVersion(), doc, err, m)
}

// RepositoryIndex lists every version that is known.
func (s *Server) RepositoryIndex(_ context.Context, q *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	m := &inference.RepositoryIndexResponse{}
	for _, k := range s.cfg.Web.Index() {
		entry := &inference.RepositoryIndexResponse_ModelIndex{Name: k.Name, Version: k.Version, State: "READY", Reason: k.Note}
		if !k.Ready {
			entry.State, entry.Reason = "UNAVAILABLE", k.Reason
		}
		if k.Ready || !q.GetReady() {
			m.Models = append(m.Models, entry)
		}
	}
	return m, nil
}

// RepositoryModelLoad has a model served, and answers when it is.
func (s *Server) RepositoryModelLoad(ctx context.Context, q *inference.RepositoryModelLoadRequest) (*inference.RepositoryModelLoadResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	model := named(q.GetModelName(), q.GetRepositoryName())
	config := ""
	err := onlyParameter(q.GetParameters(), "config")
	if p := q.GetParameters()["config"]; err == nil && p != nil {
		v, ok := p.GetParameterChoice().(*inference.ModelRepositoryParameter_StringParam)
		if !ok {
			err = oip.Errorf("parameters.config", "must be a string_param with the configuration's JSON in it")
		} else {
			config = v.StringParam
		}
	}
	if err == nil {
		err = s.cfg.Web.Load(ctx, model, config)
	}
	if err != nil {
		return nil, s.status(model, "", err)
	}
	return &inference.RepositoryModelLoadResponse{}, nil
}

// RepositoryModelUnload has a model served no more. There are no models that depend on others.
func (s *Server) RepositoryModelUnload(_ context.Context, q *inference.RepositoryModelUnloadRequest) (*inference.RepositoryModelUnloadResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	model := named(q.GetModelName(), q.GetRepositoryName())
	err := onlyParameter(q.GetParameters(), "unload_dependents")
	if err == nil {
		err = s.cfg.Web.Unload(model)
	}
	if err != nil {
		return nil, s.status(model, "", err)
	}
	return &inference.RepositoryModelUnloadResponse{}, nil
}

// named is the model that is meant: KServe's clients have its name where Triton's have that of a
// repository, of which there is one.
func named(model, repository string) string {
	if model == "" {
		return repository
	}
	return model
}

// onlyParameter refuses parameters that nobody here knows.
func onlyParameter(all map[string]*inference.ModelRepositoryParameter, one string) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch {
		case strings.HasPrefix(key, "file:"):
			return oip.Errorf("parameters."+key, "models' files are not taken in requests: put them where backends reach them, and symphony model add NAME/VERSION --source URL")
		case key != one:
			return oip.Errorf("parameters."+key, "there is no such parameter, but %s", one)
		}
	}
	return nil
}
