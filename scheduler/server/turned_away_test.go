package server

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestRefusalsAreToldOnce(t *testing.T) {
	var a turnedAway
	tell := func(at mono.Time, who, text string, worth bool, left int) {
		t.Helper()
		if n, ok := a.worth(at, who, text); ok != worth || n != left {
			t.Errorf("at %v %s, %q: worth a line %v, %d left out; want %v, %d", at, who, text, ok, n, worth, left)
		}
	}
	const start, minute = mono.Time(mono.Second), againAfter
	tell(start, "b", "no", true, 0)
	tell(start.Add(mono.Second), "b", "no", false, 0)
	tell(start.Add(2*mono.Second), "b", "no", false, 0)
	tell(start.Add(2*mono.Second), "c", "no", true, 0)
	tell(start.Add(3*mono.Second), "b", "why not", true, 2)
	tell(start.Add(4*mono.Second), "b", "why not", false, 0)
	tell(start.Add(3*mono.Second+minute), "b", "why not", true, 1)
}

// Names cost nothing: many have bounded lines and memory, and leave room when they are old.
func TestRefusalsOfManyNames(t *testing.T) {
	var a turnedAway
	lines := 0
	at := mono.Time(mono.Second)
	for i := range 10 * turnedAwayMax {
		if _, ok := a.worth(at, fmt.Sprint(i), fmt.Sprint("no", i)); ok {
			lines++
		}
	}
	if lines > turnedAwayMax+1 || len(a.last) > turnedAwayMax+1 {
		t.Errorf("%d lines, %d names kept", lines, len(a.last))
	}
	if _, ok := a.worth(at.Add(againAfter), "late", "no"); !ok || len(a.last) > 2 {
		t.Errorf("a name after the flood is worth a line: %v; %d names kept", ok, len(a.last))
	}
}
