package ui

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

func find(all []watch.Info, name string) int {
	return slices.IndexFunc(all, func(i watch.Info) bool { return i.Name == name })
}

func sameLines(a, b []string) bool { return slices.Equal(a, b) }
