package api

import "time"

// States of a Plan.
const (
	PlanProposed  = "proposed"
	PlanRollsOut  = "rolls-out"
	PlanInForce   = "in-force"
	PlanFailed    = "failed" // Reason says why
	PlanOvertaken = "overtaken"
)

// Plan is an epoch's plan: which models and how many GPUs form which sub-clusters.
type Plan struct {
	Epoch       uint64       `json:"epoch"` // 0: none was made yet
	At          time.Time    `json:"at,omitzero"`
	By          string       `json:"by,omitempty"`    // who led
	Cause       string       `json:"cause,omitempty"` // catalogue, needs, interval, by hand
	State       string       `json:"state,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Ended       time.Time    `json:"ended,omitzero"` // of its roll-out
	Models      int          `json:"models"`
	GPUs        int          `json:"gpus"`
	Need        float64      `json:"need"`
	Moves       int          `json:"moves"` // models that changed their sub-cluster
	Steps       int          `json:"steps"`
	StepsDone   int          `json:"steps_done"`
	SubClusters []SubCluster `json:"sub_clusters,omitempty"` // not in a history

	// Where there are several schedulers each has plans of its own. Scheduler says whose this one
	// is; one that sums up the last ones has them in Plans, the newest first, and all their sub-clusters.
	// Those in Lost are not linked: how theirs stand is as of before, and is no part of State.
	Scheduler string   `json:"scheduler,omitempty"`
	Plans     []Plan   `json:"plans,omitempty"`
	Lost      []string `json:"lost,omitempty"`
}

// SubCluster is models and GPUs of one device type under one rank loop.
type SubCluster struct {
	Name       string   `json:"name"`
	DeviceType string   `json:"device_type"`
	Scheduler  string   `json:"scheduler,omitempty"` // the process that runs it; empty: the only one
	Models     []string `json:"models"`              // keys, "name/version"
	GPUs       int      `json:"gpus"`
	Need       float64  `json:"need"` // GPUs, bursts included, as the planner reckoned

	Seated int     `json:"seated"` // GPUs in service there now
	Rate   float64 `json:"rate"`   // requests/s now
	Busy   float64 `json:"busy"`   // share of the GPUs' time, now

	Memory *Memory `json:"memory,omitempty"` // where weights come and go, now; nil: all models are on all GPUs
}

// Memory is that of the GPUs of a sub-cluster whose models come and go, summed.
type Memory struct {
	Pages     int     `json:"pages"`
	Free      int     `json:"pages_free"`
	Loads     float64 `json:"loads"`       // per second
	Evictions float64 `json:"evictions"`   // likewise
	Busy      float64 `json:"loader_busy"` // share of the loaders' time
}

// History is the last plans, the newest first, without their sub-clusters.
type History struct {
	Plans []Plan `json:"plans"`
}

// Move is a model that changes its sub-cluster; From or To empty: it comes, it goes.
type Move struct {
	Model string `json:"model"` // key
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Loads int    `json:"loads,omitempty"` // on the GPUs that stay in To
	Bytes int64  `json:"bytes,omitempty"` // of these

	Scheduler string `json:"scheduler,omitempty"` // of both; empty: the only one
}

// GPUMove is a GPU that changes its sub-cluster; From or To empty: it is free.
type GPUMove struct {
	GPU   string `json:"gpu"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Loads int    `json:"loads,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`

	Scheduler string `json:"scheduler,omitempty"` // empty: the only one
}

// Resize is a sub-cluster whose number of GPUs changes.
type Resize struct {
	SubCluster string  `json:"sub_cluster"`
	DeviceType string  `json:"device_type"`
	From       int     `json:"from"`
	To         int     `json:"to"`
	Need       float64 `json:"need"`
	Scheduler  string  `json:"scheduler,omitempty"` // empty: the only one
}

// Diff is what a plan made now would change, in the way that a roll-out would choose.
type Diff struct {
	Epoch   uint64    `json:"epoch"` // of the plan in force
	Need    float64   `json:"need"`  // GPUs, of the plan in force with the rates of now
	Then    float64   `json:"then"`  // likewise, of the plan made now
	Moves   []Move    `json:"moves"`
	Stay    int       `json:"stay"` // models that do not move
	Resizes []Resize  `json:"resizes"`
	GPUs    []GPUMove `json:"gpus"`
	Loads   int       `json:"loads"`            // of models onto single GPUs
	Bytes   int64     `json:"bytes"`            // of these
	Reason  string    `json:"reason,omitempty"` // why it would not be rolled out
	Away    []string  `json:"away,omitempty"`   // schedulers of several that nothing is known of now
	Kept    []string  `json:"kept,omitempty"`   // why device types keep their part of the plan in force: what there is on them cannot be divided
}

// Pause is what POST /v1/plan/pause may say.
type Pause struct {
	Why string `json:"why,omitempty"` // for people
}

// Epochs says whether plans are made beside those that the catalogue calls for.
type Epochs struct {
	Paused bool      `json:"paused"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Leader is the controller that leads.
type Leader struct {
	Name    string    `json:"name"`
	Address string    `json:"address,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Store says whether the store answers. While it does not, what is served goes on.
type Store struct {
	Where string    `json:"where"`
	Away  bool      `json:"away"`
	Since time.Time `json:"since,omitzero"`
	Error string    `json:"error,omitempty"`
}

// Status is the control plane as the process that was asked sees it.
type Status struct {
	Name       string        `json:"name"` // of that process
	Version    string        `json:"version"`
	Leads      bool          `json:"leads"`
	Leader     *Leader       `json:"leader,omitempty"` // nil: nobody, or not known
	Store      Store         `json:"store"`
	Epochs     Epochs        `json:"epochs"`
	Plan       Plan          `json:"plan"`           // without its sub-clusters
	Schedulers []string      `json:"schedulers"`     // that are linked
	Lost       []string      `json:"lost,omitempty"` // that are not, where there are several
	Backends   int           `json:"backends"`
	GPUs       int           `json:"gpus"` // in service
	Versions   map[State]int `json:"versions"`
}

// PlanSpec is a plan of people's own: which models and how many GPUs form which sub-clusters.
// It holds until the epochs are resumed; what the catalogue becomes meanwhile goes into it.
type PlanSpec struct {
	SubClusters []PlanPart `json:"sub_clusters"`
}

// PlanPart is a sub-cluster of a PlanSpec.
type PlanPart struct {
	Name       string   `json:"name"`
	DeviceType string   `json:"device_type"`
	Models     []string `json:"models"` // keys, "name/version"
	GPUs       int      `json:"gpus"`
	Need       float64  `json:"need,omitempty"`
	Scheduler  string   `json:"scheduler,omitempty"` // whose GPUs they are; empty: the only one's
}
