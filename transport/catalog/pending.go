package catalog

// Pending is a model that a backend has, or is about to have, and that nobody can ask for: one that is being
// loaded, or could not be. Who asks for it is told to come again, and not that there is no such model.
type Pending struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state,omitempty"` // StateLoading, StateFailed, or StateReady: not everywhere yet; empty: it is none any more
	Why     string `json:"why,omitempty"`   // it failed
}

// PendingMax bounds the pending models of a catalogue. What is beyond it is unknown.
const PendingMax = ModelsMax / 2
