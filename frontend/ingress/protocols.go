package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/regions"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A protocol beside HTTP (package grpcin) asks the Server for all that clients may expect to be the
// same, whichever way they come: how many inferences there may be, what is counted, in which words
// something is refused, and the documents. Documents come as the JSON that HTTP answers.

// Refusal is an answer without a result.
type Refusal struct {
	Status int    // HTTP's
	Reason string // a wire.Reason, or one of the ingress's own words
	Msg    string
	ID     string        // of the request, for symphony explain; "": the scheduler did not know it
	After  time.Duration // when it may work; 0: trying again is not the way
}

// Refusal turns any error into an answer to a request for the model; version "": none was asked for.
func (s *Server) Refusal(model, version string, err error) Refusal {
	r := s.refusalOf(model, version, err)
	return Refusal{r.status, r.reason, r.msg, r.id, r.after}
}

// Full is the refusal of whatever is bounded.
func (s *Server) Full(what string) error { return s.full(what) }

// Regions are the clients' shared memory; nil: it is not served.
func (s *Server) Regions() *regions.Regions { return s.regions }

// Draining reports whether the Server is shutting down.
func (s *Server) Draining() bool { return s.draining.Load() }

// Record counts a request that was served: its items' answers. It returns true, for Failed.
func (s *Server) Record(spec *catalog.ModelSpec, answers []*frontend.Response) bool {
	s.stats.of(spec).record(answers)
	return true
}

// Failed counts a request of a known model that ends with an error, in the statistics, and where the
// protocol refused it before the client was asked, as bad_input. counted: Record has it already.
func (s *Server) Failed(spec *catalog.ModelSpec, err error, began mono.Time, counted bool) {
	if err == nil || counted {
		return
	}
	s.stats.of(spec).failed(time.Duration(mono.Now().Sub(began)))
	var own *frontend.Error // the client has counted its own
	if errors.As(err, &own) {
		return
	}
	if status := s.refusalOf(spec.Name, spec.Version, err).status; status == 400 || status == 413 {
		if c, ok := s.cfg.Client.(badInputs); ok {
			c.CountBadInput(spec.Name, spec.Version)
		}
	}
}

// badInputs is what counts requests that were refused before they reached it. (*frontend.Client does.)
type badInputs interface{ CountBadInput(model, version string) }

var _ badInputs = (*frontend.Client)(nil)

// Metadata is the server's document.
func (s *Server) Metadata() ([]byte, error) { return json.Marshal(s.metadata()) }

// ModelMetadata is a model's document, as are the following.
func (s *Server) ModelMetadata(model, version string) ([]byte, error) {
	return s.document(model, version, func(e *catalog.Entry) object { return s.metadataOf(e) })
}

// ModelConfig is its configuration.
func (s *Server) ModelConfig(model, version string) ([]byte, error) {
	return s.document(model, version, func(e *catalog.Entry) object { return s.configOf(e) })
}

// Statistics are its counts; of "" those of all models.
func (s *Server) Statistics(model, version string) ([]byte, error) {
	if model == "" {
		return json.Marshal(s.statsOf(nil))
	}
	return s.document(model, version, func(e *catalog.Entry) object { return s.statsOf(e) })
}

func (s *Server) document(model, version string, of func(*catalog.Entry) object) ([]byte, error) {
	e, err := s.cfg.Client.Model(model, version)
	if err != nil {
		return nil, err
	}
	return json.Marshal(of(&e))
}

// ModelReady reports whether a model can be asked now. An error says that there is no such model.
func (s *Server) ModelReady(model, version string) (bool, error) {
	e, err := s.cfg.Client.Model(model, version)
	return err == nil && e.Ready && !s.Draining() && s.cfg.Client.Ready(), err
}

// Ready reports whether any model can.
func (s *Server) Ready() bool {
	return !s.Draining() && s.cfg.Client.Ready() && s.cfg.Client.Serving()
}

// Index is every version that is known here or to the Repository.
func (s *Server) Index() []Indexed {
	all, _ := s.indexed()
	return all
}

// Load has a model served, and waits until it is or ctx ends; then it goes on being loaded. config is
// Triton's model configuration as JSON with what shall change; "": nothing.
func (s *Server) Load(ctx context.Context, model, config string) error {
	o := Override{}
	if config != "" {
		var err error
		if o, err = s.override(model, config); err != nil {
			return err
		}
	}
	return s.loadModel(ctx, model, o)
}

// Unload has a model served no more.
func (s *Server) Unload(model string) error { return s.unloadModel(model) }
