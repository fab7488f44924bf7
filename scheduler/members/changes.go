package members

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// changes are told by the first few.
type changes struct {
	n     int
	first []string
}

func (c *changes) add(key, what string) {
	if c.n++; c.n <= listed {
		c.first = append(c.first, strings.TrimSpace(key+" "+what))
	}
}

func (c *changes) text() string {
	text := strings.Join(c.first, "; ")
	if c.n > len(c.first) {
		text += fmt.Sprintf("; and %d more", c.n-len(c.first))
	}
	return text
}

func fmtFactor(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

func durOf(ns int64) mono.Dur { return mono.Dur(ns) }

// news says what of a model's settings is different now, for people; "": nothing.
func news(before, after *catalog.ModelSpec) string {
	var all []string
	if before.SLO != after.SLO {
		all = append(all, fmt.Sprintf("SLO %v (was %v)", after.SLO, before.SLO))
	}
	if before.MaxBatch != after.MaxBatch {
		all = append(all, fmt.Sprintf("max_batch %d (was %d)", after.MaxBatch, before.MaxBatch))
	}
	if before.DropPolicy != after.DropPolicy {
		all = append(all, fmt.Sprintf("drop policy %q (was %q)", after.DropPolicy, before.DropPolicy))
	}
	if before.LabelsID != after.LabelsID {
		all = append(all, "other labels")
	}
	if len(all) == 0 {
		return ""
	}
	return "has " + strings.Join(all, ", ")
}
