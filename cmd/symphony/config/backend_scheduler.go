package config

import (
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport"
)

// validateScheduler checks the address of a backend's scheduler: of a group, of which one leads and
// the others are spares, all, with + between. Several that serve models of their own it cannot have.
func (b *Backend) validateScheduler(r *report) {
	const key = "backend.scheduler"
	if strings.Contains(b.Scheduler, ",") {
		r.need(false, key, "%q is more than one address: a backend belongs to one scheduler, or to one group of them: A+B", b.Scheduler)
		return
	}
	all := transport.SplitGroup(b.Scheduler)
	r.need(len(all) <= transport.GroupMax, key, "names a group of %d schedulers, at most %d are taken", len(all), transport.GroupMax)
	for i, one := range all {
		if one == "" && len(all) > 1 {
			r.need(false, key, "%q lacks an address beside +: write A+B for a group of schedulers, of which one leads", b.Scheduler)
			return
		}
		r.address(key, one)
		r.need(slices.Index(all, one) == i, key, "%q is there twice", one)
	}
}
