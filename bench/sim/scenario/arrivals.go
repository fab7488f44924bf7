package scenario

import (
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/workload"
)

const arrivalsHelp = "must be poisson, gamma:SHAPE, uniform or constant"

// parseArrivals reads a stream without its rate.
func parseArrivals(arrivals, rateProfile string) (workload.Stream, error) {
	s := workload.Stream{Process: workload.Process(arrivals)}
	switch s.Process {
	case workload.Poisson, workload.Uniform, workload.Constant:
	default:
		shape, ok := strings.CutPrefix(arrivals, "gamma:")
		v, err := strconv.ParseFloat(shape, 64)
		if !ok || err != nil {
			return s, refuse("arrivals", "%q, %s", arrivals, arrivalsHelp)
		}
		s.Process, s.Shape = workload.Gamma, v
		if !(v >= 0.01 && v <= 100) {
			return s, refuse("arrivals", "%q: the shape must be 0.01 to 100", arrivals)
		}
	}
	if rateProfile == "" {
		return s, nil
	}
	p, err := workload.ParseProfile(rateProfile)
	s.Profile = p
	return s, wrap("rate-profile", err)
}
