package profiler

import (
	"fmt"
	"strings"
)

// GPU is what a measurement on a GPU depends on, and how the model ran there. (Clocks are
// not in it: they change while a GPU works. The limit of its power is what they follow.)
type GPU struct {
	Product   string `json:"gpu,omitempty"`         // "NVIDIA H100 80GB HBM3"
	Driver    string `json:"driver,omitempty"`      // "CUDA 13.0"
	Power     string `json:"power_limit,omitempty"` // "700 W"; empty: unknown
	Precision string `json:"precision,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Sizes     []int  `json:"batch_sizes,omitempty"` // the ladder
}

func list(sizes []int) string {
	if len(sizes) == 0 {
		return ""
	}
	return strings.Trim(fmt.Sprint(sizes), "[]")
}
