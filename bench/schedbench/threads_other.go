//go:build !linux

package schedbench

import (
	"github.com/symphony-serving/symphony/transport/mono"
)

func threadCPU() map[int]mono.Dur { return nil }

func cpuOf(int) mono.Dur { return 0 }
