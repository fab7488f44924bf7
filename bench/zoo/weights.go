package zoo

import (
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Weighted is a model with its weights and a table of latencies: a row of Clockwork's Table 1.
type Weighted struct {
	Name          string
	Input, Output int64 // bytes of a request
	Weights       int64 // bytes
	Transfer      mono.Dur
	Latencies     []profile.Sample // of batch sizes 1, 2, 4, 8, 16
}

// V100 is Clockwork's Table 1: 64 models on an NVIDIA V100, compiled by TVM.
func V100() []Weighted { panic("api") }

// PageSize and V100Pages are Clockwork's: 16 MiB, of which a V100 with 32 GB has so many beside what runs.
const (
	PageSize  = 16 << 20
	V100Pages = 1376
)

// Pages is how many pages of so many bytes the weights take.
func (w Weighted) Pages(page int64) int { panic("api") }

// Profile is the latency of any batch size up to 16: interpolated.
func (w Weighted) Profile() *profile.Profile { panic("api") }
