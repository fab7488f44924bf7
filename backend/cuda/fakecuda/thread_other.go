//go:build !linux

package fakecuda

import (
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// thread knows no threads here: every one is the same, and has entered what any has.
func thread() int { return 0 }

func nap(d mono.Dur) { time.Sleep(d.Std()) }
