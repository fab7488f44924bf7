package server

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Spans are taken as they are given: their defaults are the configuration's.
func TestZeroSpansAreZero(t *testing.T) {
	c := Config{Listen: []string{"inproc:s"}, Network: loopback.New()}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.Margin != 0 || c.Lead != 0 || c.DelayMin != 0 || c.DelayMax != 0 {
		t.Errorf("margin %v, lead %v, delays %v to %v: none was given", c.Margin, c.Lead, c.DelayMin, c.DelayMax)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Margin = -1 }, func(c *Config) { c.Lead = -mono.Second }, func(c *Config) { c.DelayMin = -1 },
	} {
		c := Config{Listen: []string{"inproc:s"}, Network: loopback.New()}
		change(&c)
		if err := c.complete(); err == nil || !strings.Contains(err.Error(), "must not be negative") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
