package catalog

import "fmt"

// Residency: which models are on which devices, while they serve. A backend that joins says
// by BackendInfo what all devices of a pool have; from then on Keep orders what a device
// shall have, and Stock tells what it has.

// States of a model on a backend, in Stocked.State.
const (
	StateFetching  = "fetching"  // its files are on their way
	StateLoading   = "loading"   // they are here; it is loaded and warmed up
	StateMeasuring = "measuring" // its latencies are measured
	StateReady     = "ready"     // Devices have it and may run it
	StateFailed    = "failed"    // and why: Error
	StateGone      = "gone"      // no device has it any more; its slot is free
)

// Source is a model that a backend can get: where its files are and how it is to be served.
// What is zero says the model's own config.yaml.
type Source struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// URL is of a folder with config.yaml and the version's files, or of an object store's
	// prefix (file, s3, gs, azblob).
	URL    string `json:"url"`
	Digest Digest `json:"digest,omitempty"` // of the files (backend/shelf); empty: whatever is there
	Bytes  int64  `json:"bytes,omitempty"`  // of all files together

	SLO        int64    `json:"slo_ns,omitempty"`
	MaxBatch   int      `json:"max_batch,omitempty"`
	DropPolicy string   `json:"drop_policy,omitempty"`
	Profile    *Profile `json:"profile,omitempty"` // measured on this type of device before; nil: measure it
}

// Key is the model's: see ModelSpec.Key.
func (s *Source) Key() string { return s.Name + "/" + s.Version }

// Keep orders what a device of an admitted backend shall have; scheduler -> backend. What it
// does not name stays as it is. An order that is carried out already changes nothing. A backend
// passes it on to the other schedulers of its group (DocKeep), so that they know it when they lead.
type Keep struct {
	Pool    int      `json:"pool"`              // index in BackendInfo.Pools
	Device  int      `json:"device"`            // index in the pool's devices
	In      string   `json:"in"`                // the sub-cluster that it belongs to now: told again at the next introduction
	Load    []Source `json:"load,omitempty"`    // to be loaded, in this order
	Unload  []string `json:"unload,omitempty"`  // keys; nothing of theirs is under way any more
	Measure []string `json:"measure,omitempty"` // keys whose latencies are to be measured here: the device gets no batches meanwhile
	Told    *Told    `json:"told,omitempty"`    // of In, for the whole pool
}

// Told is what a scheduler said last of the models that are routed to a sub-cluster. A backend
// keeps it by pool and sub-cluster while one of the pool's devices is there, and repeats it in
// its next introduction: so a scheduler that starts anew finds what was routed where.
type Told struct {
	SubCluster string   `json:"sub_cluster"`
	Epoch      uint64   `json:"epoch"` // of the scheduler that said it, and Serial is its: the newer holds
	Serial     uint64   `json:"serial"`
	Whole      bool     `json:"whole,omitempty"` // Keys are all of them; else they come, and Gone go
	Keys       []string `json:"keys,omitempty"`
	Gone       []string `json:"gone,omitempty"`
}

// Stock tells what became of a pool's models; backend -> scheduler. After admission one Stock
// tells of all that is not on all devices; then each change of a model, or of several, makes one.
type Stock struct {
	Pool   int       `json:"pool"`
	Models []Stocked `json:"models"`
}

// Files are those that a model was loaded from, as the backend that has them knows them.
type Files struct {
	Digest Digest    `json:"digest,omitempty"` // as an order may ask for it (Source)
	Bytes  int64     `json:"bytes,omitempty"`  // of all together
	Own    *Settings `json:"own,omitempty"`    // what its config.yaml says, where its order said other settings
}

// Check refuses files that no backend can have.
func (f *Files) Check() error {
	switch {
	case f.Digest != "" && !f.Digest.Valid():
		return fmt.Errorf("%.80q is no digest", f.Digest)
	case f.Bytes < 0:
		return fmt.Errorf("files of %d bytes", f.Bytes)
	}
	return nil
}

// Stocked is a model of a pool as it is now.
type Stocked struct {
	// Slot is the backend's number of the model, from 0 on, which Bound answers: those of the
	// introduction's list first, in its order. It is not another model's until it was gone.
	Slot    int        `json:"slot"`
	Key     string     `json:"key"`
	State   string     `json:"state"`
	Devices []int      `json:"devices,omitempty"` // those that have it and may run it; ascending
	Spec    *ModelSpec `json:"spec,omitempty"`    // when it is ready for the first time, or changed
	Local   bool       `json:"local,omitempty"`   // the backend's own: it lies in its folder, nobody ordered it
	Error   string     `json:"error,omitempty"`
	// Outdated: the files have changed, and what was served before goes on. This is why the new ones are not served.
	Outdated string `json:"outdated,omitempty"`
	Files           // those that Devices have; nothing of a model that is the backend's own
	// Progress of fetching, in bytes.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Memory that it takes on a device: while it is loaded, and beyond that while it runs; bytes.
	Static  int64 `json:"static,omitempty"`
	Dynamic int64 `json:"dynamic,omitempty"`
}
