package nexus

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/wire"
)

// route is a place where a model is served.
type route struct {
	gpu  wire.GPUID
	slot int32
	rate float64 // requests/s that the GPU can take: see item
	step int64   // virtual time of one request: 1/share
}

const (
	// stepUnit is the virtual time of a request on a route that has the whole
	// rate. A year of requests at a million a second stays below 2^63.
	stepUnit = 1 << 16
	stepMax  = 1 << 40
)

// frontend spreads requests by its own order: for each model, its routes by
// virtual time. The route that is due first gets the request, and is due again
// one step later, so that any run of requests is shared by rate.
//
// Invariant: order[m] holds each route of model m once.
type frontend struct {
	order []pq.Heap
}

// reset takes over new routes. Each begins at a random point of its step:
// frontends do not coordinate, nor do they move in lock step by accident.
func (f *frontend) reset(models []model, r *rand.Rand) {
	f.order = make([]pq.Heap, len(models))
	for m := range models {
		for i, k := range models[m].routes {
			f.order[m].Set(uint32(i), r.Int64N(k.step))
		}
	}
}

// pick is the index of the route for the next request of model m.
func (f *frontend) pick(m wire.ModelID, routes []route) int {
	i, due := f.order[m].Min()
	f.order[m].Set(i, due+routes[i].step)
	return int(i)
}

// setSteps derives the steps from what each GPU can take.
func setSteps(routes []route) {
	sum := 0.0
	for i := range routes {
		sum += routes[i].rate
	}
	for i := range routes {
		routes[i].step = int64(min(stepMax, float64(sum/routes[i].rate)*stepUnit))
	}
}
