package peers

import (
	"fmt"
	"strings"
)

// Setting is what a sweep varies. A system uses what it has; the zero Setting is a
// system as it comes.
type Setting struct {
	Delay   float64 `json:"delay"`          // share of the SLO that a batch waits for more
	Timeout float64 `json:"timeout"`        // share of the SLO after which a request is given up; 0: never
	Longest float64 `json:"longest_ms"`     // of a batch; 0: batchMax bounds it alone
	Mode    string  `json:"mode,omitempty"` // the system's own
}

// String says the setting in words; "as it comes" is the zero one.
func (s Setting) String() string {
	if s == (Setting{}) {
		return "as it comes"
	}
	words := []string{fmt.Sprintf("delay %g SLO", s.Delay)}
	if s.Timeout > 0 {
		words = append(words, fmt.Sprintf("timeout %g SLO", s.Timeout))
	}
	if s.Longest > 0 {
		words = append(words, fmt.Sprintf("batches <= %g ms", s.Longest))
	}
	if s.Mode != "" {
		words = append(words, s.Mode)
	}
	return strings.Join(words, ", ")
}

// grid is every combination of delays and timeouts, the rest as in s.
func (s Setting) grid(delays, timeouts []float64) []Setting {
	var out []Setting
	for _, s.Delay = range delays {
		for _, s.Timeout = range timeouts {
			out = append(out, s)
		}
	}
	return out
}

// longest is s with each of the longest batches but its own.
func (s Setting) longest(all []float64) []Setting {
	var out []Setting
	for _, l := range all {
		if l != s.Longest {
			t := s
			t.Longest = l
			out = append(out, t)
		}
	}
	return out
}

// modes is s in each of the modes.
func (s Setting) modes(all ...string) []Setting {
	var out []Setting
	for _, s.Mode = range all {
		out = append(out, s)
	}
	return out
}
