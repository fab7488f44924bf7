// Package catalog holds the control plane's documents: what a model is, which
// backends serve it, who is who. They travel as JSON (wire.Doc) when a peer
// joins or something changes, never per request.
package catalog

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// DataType is an element type, by its Open Inference Protocol name.
type DataType string

const (
	Bool  DataType = "BOOL"
	Uint8 DataType = "UINT8"
	// ... the protocol's other names: see Size.
	Uint16 DataType = "UINT16"
	Uint32 DataType = "UINT32"
	Uint64 DataType = "UINT64"
	Int8   DataType = "INT8"
	Int16  DataType = "INT16"
	Int32  DataType = "INT32"
	Int64  DataType = "INT64"
	FP16   DataType = "FP16"
	FP32   DataType = "FP32"
	FP64   DataType = "FP64"
	Bytes  DataType = "BYTES"
)

// Size is the bytes of one element; 0 for BYTES, whose elements vary, -1 for
// a name that is no type.
func (t DataType) Size() int {
	switch t {
	case Bool, Uint8, Int8:
		return 1
	case Uint16, Int16, FP16:
		return 2
	case Uint32, Int32, FP32:
		return 4
	case Uint64, Int64, FP64:
		return 8
	case Bytes:
		return 0
	}
	return -1
}

// TensorSpec describes one input or output of a model, for one item: Shape
// leaves the batch dimension out. All dimensions are positive.
type TensorSpec struct {
	Name  string   `json:"name" yaml:"name"`
	Type  DataType `json:"type" yaml:"type"`
	Shape []int64  `json:"shape" yaml:"shape"`
}

// Elements is the product of Shape; 1 for a scalar.
func (s TensorSpec) Elements() int64 {
	n := int64(1)
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// ByteSize is the bytes of one item; -1 where it varies (BYTES).
func (s TensorSpec) ByteSize() int64 {
	if s.Type.Size() <= 0 {
		return -1
	}
	return s.Elements() * int64(s.Type.Size())
}

// ImageSpec registers image preprocessing for a model with one input.
// Decode, resize (shorter side to Resize, then centre crop to the input's
// height and width; plain resize to them when Resize is 0), scale to 0..1,
// subtract Mean and divide by Std per channel, lay out.
type ImageSpec struct {
	Layout   string    `json:"layout" yaml:"layout"`                     // "NCHW" or "NHWC"
	Channels int       `json:"channels" yaml:"channels"`                 // 1 (grey) or 3 (RGB)
	Resize   int       `json:"resize,omitempty" yaml:"resize,omitempty"` // pixels; 0: straight to the input's size
	Scale    float64   `json:"scale,omitempty" yaml:"scale,omitempty"`   // multiplies 0..255 before Mean and Std; 0 means 1/255
	Mean     []float64 `json:"mean,omitempty" yaml:"mean,omitempty"`
	Std      []float64 `json:"std,omitempty" yaml:"std,omitempty"`
	Invert   bool      `json:"invert,omitempty" yaml:"invert,omitempty"` // 255-v first: dark ink on light paper
}

// Profile is a latency profile as data: a line, or a measured table
// ([i] is l(i+1)). Table wins when both are there. See scheduler/profile.
type Profile struct {
	Alpha mono.Dur   `json:"alpha_ns"`
	Beta  mono.Dur   `json:"beta_ns"`
	Table []mono.Dur `json:"table_ns,omitempty"`
}

// ModelSpec is all that anybody needs to know of a model.
//
// Slab and output layout: the inputs (outputs) of one item one after the
// other in spec order, each ByteSize long. Text (BYTES) is not served: its
// elements have no size.
type ModelSpec struct {
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	Platform string       `json:"platform"` // "onnxruntime_onnx" or "emulated"
	SLO      mono.Dur     `json:"slo_ns"`
	MaxBatch int          `json:"max_batch"`
	Inputs   []TensorSpec `json:"inputs"`
	Outputs  []TensorSpec `json:"outputs"`
	Image    *ImageSpec   `json:"image,omitempty"`
	// Labels are of the last dimension of Outputs[0]. They stay with the backend: a
	// document carries LabelsID, and whoever needs them asks by it.
	Labels   []string `json:"-"`
	LabelsID Digest   `json:"labels,omitempty"`
	Profile  Profile  `json:"profile"`
	// DropPolicy is "target" (default, when empty) or "head".
	DropPolicy string `json:"drop_policy,omitempty"`
	// Of a model that a paged pool loads on demand: what its weights take of a device's memory, and how long
	// they take to get there from the host's, as told or measured.
	WeightsBytes int64    `json:"weights_bytes,omitempty"`
	LoadTime     mono.Dur `json:"load_ns,omitempty"`
	Resident     bool     `json:"resident,omitempty"` // it is on all devices of its pool at all times, also of a paged one
}

// Key is how models are told apart: "name" and "version".
func (m *ModelSpec) Key() string { return m.Name + "/" + m.Version }

// FrontendInfo is a frontend's first message.
type FrontendInfo struct {
	Name     string `json:"name"`
	Instance uint64 `json:"instance"` // of the process: drawn when it starts
	// Address is where backends read slabs and send outputs. One without a host
	// ("tcp:[::]:4000", "tcp:0.0.0.0:4000") gets the host that the scheduler sees.
	Address string `json:"address"`
}

// Pool is a set of equal devices, each with all of a list's models resident, or, where it is
// paged, able to load any of them. Pools of one DeviceType on several backends join to one sub-cluster.
type Pool struct {
	DeviceType string     `json:"device_type"` // "cpu", "emulated-1080ti", ...
	Devices    int        `json:"devices"`
	FreeAt     []mono.Dur `json:"free_in_ns,omitempty"` // per device: span until what it runs now ends
	In         []string   `json:"in,omitempty"`         // per device: the sub-cluster that it was told last; nil: "" for all
	Memory     int64      `json:"memory,omitempty"`     // of a device, for models, bytes; 0: without a bound
	Runtime    bool       `json:"runtime,omitempty"`    // it takes Keep: models may come and go
	Measures   bool       `json:"measures,omitempty"`   // a model that comes without a profile is measured, which what runs meanwhile disturbs
	Told       []Told     `json:"told,omitempty"`       // by sub-cluster of In, whole
	Ordered    []int      `json:"ordered,omitempty"`    // of the ModelList, by index: those that a Keep ordered, the others are the backend's own
	Brought    []Files    `json:"brought,omitempty"`    // those of Ordered, one for each
	Models     Digest     `json:"models"`               // of the ModelList

	Paged *Paged `json:"paged,omitempty"` // its devices' memory; nil: all models are resident
	// CannotPage is why the pool cannot be paged, in words; empty: it is, or may be by its configuration.
	CannotPage string `json:"cannot_page,omitempty"`
	Strict     bool   `json:"strict,omitempty"` // its devices begin no batch before its planned start

	Held [][]HeldModel `json:"held,omitempty"` // per device of a paged pool: what it holds now; nil: nothing
}

// BackendInfo is a backend's first message. The models themselves travel apart, and
// only once for all backends that have the same ones.
type BackendInfo struct {
	Name       string `json:"name"`       // unique; a restart under the same name gets the same GPU ids
	Instance   uint64 `json:"instance"`   // of the process: drawn when it starts
	Configured int64  `json:"configured"` // when it read its configuration, unix ns: of two the newer holds
	Pools      []Pool `json:"pools"`
}

// ModelList is the models of a pool, in the order in which its backend counts them.
// Its Digest is that of its bytes.
type ModelList struct {
	Models []ModelSpec `json:"models"`
}

// Want asks for a document by its digest: the scheduler asks a backend for a model list
// or labels, a frontend asks the scheduler for labels. One of both is set.
type Want struct {
	Models Digest `json:"models,omitempty"`
	Labels Digest `json:"labels,omitempty"`
}

// Bound tells an admitted backend the ids of a pool's models: of all in the list's order, or
// of those in Slots, which a Stock told.
type Bound struct {
	Pool  int            `json:"pool"` // index in BackendInfo.Pools
	IDs   []wire.ModelID `json:"ids"`
	Slots []int          `json:"slots,omitempty"`
}

// Service says that a device of an admitted backend is out of service, or back in it. What
// the backend had of batches for a device that is out is queued again: it says nothing more
// of them.
type Service struct {
	Pool   int    `json:"pool"`   // index in BackendInfo.Pools
	Device int    `json:"device"` // index in the pool's devices
	Works  bool   `json:"works"`
	Why    string `json:"why,omitempty"` // for people
}

// Admitted is the scheduler's reply to FrontendInfo or BackendInfo.
type Admitted struct {
	Epoch    wire.Epoch      `json:"epoch"`
	Frontend wire.FrontendID `json:"frontend,omitempty"`
	Address  string          `json:"address,omitempty"` // a frontend's, as backends will dial it
	Error    string          `json:"error,omitempty"`   // refused, and why; the link closes
}

// Changes are what became of the catalogue after Since and up to Serial. A frontend
// applies them in order; it has a whole catalogue when More is false.
type Changes struct {
	Epoch  wire.Epoch     `json:"epoch"`
	Since  uint64         `json:"since"` // 0: from nothing
	Serial uint64         `json:"serial"`
	More   bool           `json:"more,omitempty"` // the rest follows
	Pools  []PoolState    `json:"pools,omitempty"`
	Models []Served       `json:"models,omitempty"`
	Gone   []wire.ModelID `json:"gone,omitempty"`
	Names  []Name         `json:"names,omitempty"` // which versions answer: whole for each name that changed
	// Pending are models that cannot be asked for yet, or not any more: whole for each that changed.
	Pending []Pending `json:"pending,omitempty"`
}

// PoolState says how many devices of a sub-cluster are there now.
type PoolState struct {
	DeviceType string `json:"device_type"`
	GPUs       int    `json:"gpus"`
	SubCluster string `json:"sub_cluster,omitempty"`
}

// Served is a model that can be asked for.
type Served struct {
	ID         wire.ModelID `json:"id"`
	DeviceType string       `json:"device_type"`
	SubCluster string       `json:"sub_cluster,omitempty"`
	Spec       ModelSpec    `json:"spec"`
}

// Entry is a model in a frontend's catalogue.
type Entry struct {
	ID         wire.ModelID `json:"id"`
	DeviceType string       `json:"device_type"`
	Ready      bool         `json:"ready"` // a backend serves it now
	GPUs       int          `json:"gpus"`
	Spec       ModelSpec    `json:"spec"`
}

// Catalogue is what can be asked for. Entries are ordered by ID.
type Catalogue struct {
	Epoch   wire.Epoch `json:"epoch"`
	Serial  uint64     `json:"serial"` // rises with every change in an epoch
	Entries []Entry    `json:"entries"`
}
