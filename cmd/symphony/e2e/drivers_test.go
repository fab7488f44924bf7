package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// drivers reads a backend's log (level debug) as a witness of who drove its devices: promises have rising
// reigns (the same one once more where its scheduler's link was lost and is there again), batches begin in the reign that is promised, or were kept by a planned switch, and each device
// runs one at a time. It says how many batches it saw, and how many promises.
type drivers struct {
	t        *testing.T
	name     string
	promised uint64
	whom     string            // the scheduler that has the last promise
	planned  bool              // the last promise: batches of before are kept
	began    uint64            // the highest reign of which a batch began
	running  map[string]uint64 // batch by device
	batches  int
	promises int
}

var logField = regexp.MustCompile(`\b(pool|device|reign|batch|planned|scheduler)=(\S+)`)

func checkDrivers(t *testing.T, p *process) *drivers {
	t.Helper()
	d := &drivers{t: t, name: p.name, running: map[string]uint64{}}
	for line := range strings.Lines(p.log.String()) {
		is := func(text string) bool { return strings.Contains(line, text) }
		if !is("is obeyed from now on") && !is("batch begins") && !is("batch ends") {
			continue
		}
		fields := map[string]string{}
		for _, m := range logField.FindAllStringSubmatch(line, -1) {
			fields[m[1]] = m[2]
		}
		number := func(name string) uint64 {
			n, err := strconv.ParseUint(fields[name], 10, 64)
			if err != nil {
				t.Fatalf("%s: %s of %q: %v", p.name, name, line, err)
			}
			return n
		}
		device := fields["pool"] + "/" + fields["device"]
		switch {
		case is("batch begins"):
			d.begins(device, number("reign"), number("batch"))
		case is("batch ends"):
			if d.running[device] != number("batch") {
				t.Errorf("%s: device %s ends batch %d, and ran %d", p.name, device, number("batch"), d.running[device])
			}
			delete(d.running, device)
		default:
			d.promise(number("reign"), fields["scheduler"], fields["planned"] == "true")
		}
	}
	return d
}

func (d *drivers) promise(reign uint64, whom string, planned bool) {
	switch {
	case reign == d.promised && whom == d.whom:
		return
	case reign <= d.promised:
		d.t.Errorf("%s promises reign %d (%s) after %d (%s)", d.name, reign, whom, d.promised, d.whom)
	}
	d.promised, d.whom, d.planned = reign, whom, planned
	d.promises++
}

func (d *drivers) begins(device string, reign, batch uint64) {
	if at := d.running[device]; at != 0 {
		d.t.Errorf("%s: device %s begins batch %d of reign %d and runs %d", d.name, device, batch, reign, at)
	}
	// The line of a promise comes after what it says: batches of that reign may be told of before.
	if highest := max(d.promised, d.began); reign < highest && !d.planned {
		d.t.Errorf("%s: device %s begins batch %d of reign %d after reign %d", d.name, device, batch, reign, highest)
	}
	d.running[device] = batch
	d.began = max(d.began, reign)
	d.batches++
}
