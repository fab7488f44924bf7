package catalog

// Pending is a model that is not served: a backend is loading it, is about to, or could not. A request for it is
// answered with that, and not with an unknown model.
type Pending struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state,omitempty"` // StateLoading, StateFailed, or StateReady: not everywhere yet; empty: it is pending no longer
	Why     string `json:"why,omitempty"`   // it failed
}

// PendingMax bounds the pending models of a catalogue. What is beyond it is unknown.
const PendingMax = ModelsMax / 2
