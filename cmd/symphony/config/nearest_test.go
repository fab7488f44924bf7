package config

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	for unknown, want := range map[string]string{
		"scheduler.qeue_max":            "scheduler.queue_max",
		"scheduler.queueMax":            "scheduler.queue_max",
		"schedulr":                      "scheduler",
		"margin":                        "scheduler.margin",
		"backend.http":                  "frontend.http",
		"backend.pools[0].device":       "backend.pools.devices",
		"backend.pools[1].zoo[0].copie": "backend.pools.zoo.copies",
		"one":                           "",
		"scheduler.nothing_like_it":     "",
	} {
		if want != "" {
			want = ", the nearest is " + want
		}
		if got := nearestText(unknown); got != want {
			t.Errorf("%s: %q, want %q", unknown, got, want)
		}
	}
}

// Errors name it, of lists too.
func TestUnknownKeysNameTheNearest(t *testing.T) {
	_, err := Load(write(t, "backend: {pools: [{device_type: cpu, kind: cpu, devices: 1, thread: 1}]}\n"), []Set{{Key: "margin", Value: "1ms"}}, nil)
	for _, want := range []string{"backend.pools[0].thread: there is no such key, the nearest is backend.pools.threads", "margin: there is no such key, the nearest is scheduler.margin; set by a flag"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// Values that are no numbers are said without Go's words.
func TestNoNumbers(t *testing.T) {
	_, err := Load("", []Set{{Key: "scheduler.tuner", Value: "abc"}, {Key: "scheduler.model_loops", Value: "2.5"}, {Key: "procs", Value: "3"}}, nil)
	for _, want := range []string{`2 errors`, `scheduler.tuner: "abc" is no number; set`, `scheduler.model_loops: "2.5" is no whole number; set`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}
