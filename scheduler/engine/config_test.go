package engine

import "testing"

// A margin of 0 is none: its default is the configuration's.
func TestZeroMarginIsZero(t *testing.T) {
	var c Config
	if err := c.complete(); err != nil || c.Margin != 0 {
		t.Errorf("margin %v (%v), none was given", c.Margin, err)
	}
}
