package frontend

import (
	"errors"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ErrLoading: the model is there and being loaded. It is an ErrUnavailable: again after a pause it is served.
var ErrLoading = errors.New("loading")

// pend applies what a catalogue's change says of models that are not served.
func (s *served) pend(all []catalog.Pending) {
	if len(all) == 0 {
		return
	}
	next := make(map[string][]catalog.Pending, len(s.pending))
	for name, versions := range s.pending { // snapshots have the map before
		next[name] = versions
	}
	for _, p := range all {
		var versions []catalog.Pending
		for _, other := range next[p.Name] {
			if other.Version != p.Version {
				versions = append(versions, other)
			}
		}
		if p.State != "" {
			versions = append(versions, p)
		}
		if next[p.Name] = versions; len(versions) == 0 {
			delete(next, p.Name)
		}
	}
	s.pending = next
}

// awaits is a version of a name that is not served yet; nil: there is none. With version "" it is any, and one that is
// loading goes before one that failed.
func (s *snapshot) awaits(name, version string) (best *catalog.Pending) {
	all := s.pending[name]
	for i := range all {
		if p := &all[i]; (version == "" || p.Version == version) && (best == nil || best.State == catalog.StateFailed) {
			best = p
		}
	}
	return best
}

// pending is the answer to a request for one.
func (g *group) pending(p *catalog.Pending) *Error {
	e := &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: p.Name + "/" + p.Version}
	switch p.State {
	case catalog.StateFailed:
		e.Msg = "it cannot be served as it is: " + p.Why
	case catalog.StateReady:
		e.Msg, e.Loading = "it is loaded, and not on all devices that are to serve it yet", true
	default:
		e.Msg, e.Loading = "it is being loaded", true
	}
	return e
}

// stillThere is the answer to a request whose model the scheduler does not know any more. The model may be served again by
// now, or be about to be, if its files were exchanged while the request was under way. nil: the model is gone.
func (c *Client) stillThere(k *call) *Error {
	name, version := k.model.entry.Spec.Name, k.model.entry.Spec.Version
	if k.any {
		version = ""
	}
	_, err := c.find(name, version)
	switch {
	case err == nil:
		return &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: name, Loading: true, Msg: "it was exchanged while the request was under way: ask again"}
	case err.Kind == ErrUnavailable:
		return err
	}
	return nil
}

// OfOneModel says why answers to the items of one request are not of one model: its files were exchanged while
// the request ran.
func OfOneModel(answers []*Response) error {
	var all wire.OutputFlags
	for _, r := range answers {
		all |= r.exchanged
	}
	if all != wire.OutputBefore|wire.OutputAfter {
		return nil
	}
	return &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Loading: true, Msg: "the model's files were exchanged while the request ran: ask again"}
}
