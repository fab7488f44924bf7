package catalog

import "github.com/symphony-serving/symphony/transport/mono"

// What the control plane and a scheduler tell each other: orders and what came of them, and
// facts. The control plane may be away for long; the scheduler goes on with the orders it had.

// Kinds of orders.
const (
	OrderJoin    = "join"    // nothing but: here I am; Facts begin with the first order of a link
	OrderLoad    = "load"    // GPU gets Models (Sources); done when they are resident
	OrderUnload  = "unload"  // GPU gives Models up
	OrderRoute   = "route"   // requests of Models go to sub-cluster To; "-": nowhere, they are served no more
	OrderDrain   = "drain"   // GPU gets nothing new; done when it has nothing left and is in no sub-cluster
	OrderSeat    = "seat"    // GPU joins sub-cluster To; of one that drains there the drain is called off
	OrderMeasure = "measure" // GPU, which is drained, measures Models
	OrderSet     = "set"     // Models are served with Settings from now on
	OrderNames   = "names"   // Names say which versions answer

	// Of a scheduler in a group, from people:
	OrderPromote  = "promote"   // lead; done when it does
	OrderStepDown = "step-down" // have another one lead; done when that does
)

// Nowhere is the sub-cluster of what is in none. The empty name is that of the sub-cluster
// that all GPUs of a type form where nobody plans.
const Nowhere = "-"

// Order is one step; control plane -> scheduler. An order that is carried out already is done
// at once, so that whoever does not know may order again.
type Order struct {
	ID         uint64    `json:"id"`   // the sender's; rises
	Plan       uint64    `json:"plan"` // the epoch of the plan that it belongs to
	Kind       string    `json:"kind"`
	GPU        string    `json:"gpu,omitempty"`         // "backend/device type/device"
	DeviceType string    `json:"device_type,omitempty"` // of To
	To         string    `json:"to,omitempty"`
	Keys       []string  `json:"keys,omitempty"` // of models
	Sources    []Source  `json:"sources,omitempty"`
	Settings   *Settings `json:"settings,omitempty"`
	Names      []Name    `json:"names,omitempty"`
	Within     mono.Dur  `json:"within_ns,omitempty"` // it fails when it is not done by then, and a drain is called off; 0: it may take for ever
}

// Settings of a model that change without loading it again; nil: as before.
type Settings struct {
	SLO        *int64  `json:"slo_ns,omitempty"`
	MaxBatch   *int    `json:"max_batch,omitempty"`
	DropPolicy *string `json:"drop_policy,omitempty"`
}

// Name says which versions answer requests that name none. Without one the highest does.
type Name struct {
	Name   string  `json:"name"`
	Shares []Share `json:"shares"` // empty: as without one
}

// Share is a version's part of the requests: Weight of the sum of all weights.
type Share struct {
	Version string `json:"version"`
	Weight  uint32 `json:"weight"`
}

// Outcome is what came of an order; scheduler -> control plane, once for each.
type Outcome struct {
	ID    uint64 `json:"id"`
	Error string `json:"error,omitempty"` // empty: done
}

// Facts are what became of a scheduler's world since those before; scheduler -> control plane,
// at once when something changes and otherwise each second. The first ones are whole. A
// document tells of so much as fits: More says that the rest follows. What is gone goes first: a
// GPU may be gone and back in one document.
type Facts struct {
	Epoch       uint64            `json:"epoch"` // of the scheduler; another one: begin anew
	Serial      uint64            `json:"serial"`
	Whole       bool              `json:"whole,omitempty"` // forget what was told before
	More        bool              `json:"more,omitempty"`
	Plan        uint64            `json:"plan,omitempty"` // the newest that an order was of: older ones are refused
	GPUs        []GPUFacts        `json:"gpus,omitempty"`
	GoneGPUs    []string          `json:"gone_gpus,omitempty"`
	Models      []ModelFacts      `json:"served,omitempty"`
	GoneModels  []string          `json:"gone_models,omitempty"`
	SubClusters []SubClusterFacts `json:"sub_clusters,omitempty"`
}

// States of a GPU, in GPUFacts.State.
const (
	GPUServing  = "serving"
	GPUDraining = "draining" // it gets nothing new
	GPUFree     = "free"     // drained, or never seated
	GPUOut      = "out"      // out of service: lost, or in doubt
)

// GPUFacts is a GPU as it is now.
type GPUFacts struct {
	Name       string    `json:"name"` // "backend/device type/device"
	DeviceType string    `json:"device_type"`
	In         string    `json:"in"` // sub-cluster
	State      string    `json:"state"`
	Memory     int64     `json:"memory,omitempty"`   // for models, bytes; 0: unknown, without a bound
	Measures   bool      `json:"measures,omitempty"` // as Pool has it
	Paged      bool      `json:"paged,omitempty"`    // weights come and go: it has no bound but the host's memory
	CannotPage string    `json:"cannot_page,omitempty"`
	Stock      []Stocked `json:"stock,omitempty"` // models that changed; Slot and Devices are not set; Spec as Stocked says, with the first device of a backend's pool
}

// ModelFacts is a routed model as it is now.
type ModelFacts struct {
	Key        string  `json:"key"`
	DeviceType string  `json:"device_type"`
	In         string  `json:"in"`      // sub-cluster
	Rate       float64 `json:"rate"`    // requests/s that came, over the last seconds
	Need       float64 `json:"need"`    // GPUs that deferral alone would keep busy
	Served     uint64  `json:"served"`  // answered in time, since it is routed; counts
	Late       uint64  `json:"late"`    // answered late
	Dropped    uint64  `json:"dropped"` // given up before execution
	Waiting    int     `json:"waiting"`
	// Set are the settings that orders have put in force since the scheduler began: as far as they
	// have, they hold in place of those that backends tell (Stocked.Spec). Nil: none.
	Set *Settings `json:"set,omitempty"`
}

// SubClusterFacts is a sub-cluster as it is now. One with neither GPUs nor models has ended.
type SubClusterFacts struct {
	Name       string  `json:"name"`
	DeviceType string  `json:"device_type"`
	Planned    bool    `json:"planned"` // the control plane says what it has
	GPUs       int     `json:"gpus"`    // in service
	Models     int     `json:"routed"`
	Need       float64 `json:"need"`
	Rate       float64 `json:"rate"`
	Busy       float64 `json:"busy"` // share of the GPUs' time
	// Paged is of one whose models come and go; nil: they are on all of its GPUs.
	Paged *PagedFacts `json:"paged,omitempty"`
}

// PagedFacts is the memory of a sub-cluster's GPUs, summed, and what was loaded in the last second.
type PagedFacts struct {
	Pages     int     `json:"pages"`
	Free      int     `json:"pages_free"`
	Loads     float64 `json:"loads"`       // per second
	Evictions float64 `json:"evictions"`   // likewise
	Busy      float64 `json:"loader_busy"` // share of the loaders' time
}
