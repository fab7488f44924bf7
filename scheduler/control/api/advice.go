package api

import "time"

// Actions of a ScaleGroup.
const (
	ScaleKeep  = "keep"  // nothing is to change
	ScaleAdd   = "add"   // replicas are missing
	ScaleAwait = "await" // what was ordered is on its way, or late
	ScaleDrain = "drain" // replicas end what they have, and go then
	ScaleWait  = "wait"  // a change is due, and has to wait: for its cool-down, or for a limit
	ScaleSpare = "spare" // replicas could go, and nobody is to act
)

// Advice is how many GPUs there should be, by device type.
type Advice struct {
	At     time.Time    `json:"at"`
	Scaler string       `json:"scaler"` // who acts: none, exec, kubernetes
	Groups []ScaleGroup `json:"groups"`
}

// ScaleGroup is the replicas (backends) of a device type at a scheduler. Whoever acts keeps Size of them:
// as many as that at once, or fewer as soon as Size is smaller, by those that Remove names; what
// Leaving has beside those still has something to do.
type ScaleGroup struct {
	DeviceType string `json:"device_type"`
	Scheduler  string `json:"scheduler,omitempty"` // empty: the only one
	Action     string `json:"action"`
	Why        string `json:"why"`     // in words
	Size       int    `json:"size"`    // replicas that there are to be
	Settled    bool   `json:"settled"` // false: the controller began a moment ago, and Size leaves out what is on its way: end nothing by it
	Unit       int    `json:"unit"`    // GPUs of each

	GPUs    int      `json:"gpus"` // that serve
	Want    int      `json:"want"` // that are to
	Min     int      `json:"min"`  // by configuration and schedule
	Max     int      `json:"max"`  // 0: no limit
	Need    float64  `json:"need"` // GPUs that deferral alone would keep busy
	BadRate float64  `json:"bad_rate"`
	Idle    float64  `json:"idle"`     // share of the GPUs that deferral alone would leave idle
	Serving int      `json:"serving"`  // replicas
	OnOrder int      `json:"on_order"` // GPUs that are expected
	Late    int      `json:"late"`     // replicas that were ordered, and are late
	Dead    []string `json:"dead"`     // replicas that are there and serve nothing
	Leaving []string `json:"leaving"`  // replicas that get nothing new
	Remove  []string `json:"remove"`   // of these, those with nothing left: they may be removed; the highest first

	Try   int         `json:"try"`             // how often the scaler was asked for Size
	Error string      `json:"error,omitempty"` // of the last try
	Parts []ScalePart `json:"parts"`           // its sub-clusters
}

// ScalePart is a sub-cluster's part of an advice.
type ScalePart struct {
	Name    string  `json:"name"`
	GPUs    int     `json:"gpus"`
	Need    float64 `json:"need"`
	BadRate float64 `json:"bad_rate"`
	Idle    float64 `json:"idle"`
	Add     int     `json:"add"`
	Remove  int     `json:"remove"`
	Why     string  `json:"why"` // steady, need, bad_rate, spare, holding, futile
}
