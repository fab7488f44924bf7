package grpcin

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
)

// ServerLive implements inference.GRPCInferenceServiceServer, as do the following.
func (s *Server) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

// ServerReady reports whether any model can be asked.
func (s *Server) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.cfg.Web.Ready()}, nil
}

// ModelReady reports whether a model can. One that does not exist is not ready, as in Triton.
func (s *Server) ModelReady(_ context.Context, q *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	ready, _ := s.cfg.Web.ModelReady(q.GetName(), q.GetVersion())
	return &inference.ModelReadyResponse{Ready: ready}, nil
}

// ServerMetadata has name, version and extensions.
func (s *Server) ServerMetadata(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	m := &inference.ServerMetadataResponse{}
	doc, err := s.cfg.Web.Metadata()
	return m, s.answer("", "", doc, err, m)
}

// ModelMetadata has a model's inputs and outputs.
func (s *Server) ModelMetadata(_ context.Context, q *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	m := &inference.ModelMetadataResponse{}
	doc, err := s.cfg.Web.ModelMetadata(q.GetName(), q.GetVersion())
	return m, s.answer(q.GetName(), q.GetVersion(), doc, err, m)
}

// answer reads HTTP's document into a message of the same fields.
func (s *Server) answer(model, version string, doc []byte, err error, m proto.Message) error {
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(doc, m)
	}
	if err != nil {
		return s.status(model, version, err)
	}
	return nil
}
