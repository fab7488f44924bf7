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
	Graphs    string `json:"graphs,omitempty"`      // CUDA's: on, off, auto
	Sizes     []int  `json:"batch_sizes,omitempty"` // the ladder
}

func list(sizes []int) string {
	if len(sizes) == 0 {
		return ""
	}
	return strings.Trim(fmt.Sprint(sizes), "[]")
}

// Where says what a profile of the key is for, to people.
func (k Key) Where() string {
	if k.GPU.Product == "" {
		return fmt.Sprintf("%d processors %s", k.Host.Processors, k.Host.CPU)
	}
	power := ""
	if k.GPU.Power != "" {
		power = ", " + k.GPU.Power
	}
	return fmt.Sprintf("%s with %s%s, in %s by %s", k.GPU.Product, k.GPU.Driver, power, k.GPU.Precision, k.GPU.Provider)
}
