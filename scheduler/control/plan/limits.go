package plan

import "github.com/symphony-serving/symphony/transport/mono"

// Limits of a roll-out. The zero Limits has the defaults.
type Limits struct {
	Loads     int // loads and unloads under way; 0 means 64
	LoadsHost int // of them on one host; 0 means 4
	LoadsGPU  int // of them on one GPU; 0 means 1
	Drained   int // GPUs that are out of service on their way to another sub-cluster; 0 means 16
	Warming   int // models that GPUs in service load before they are routed; 0 means 32
	Others    int // routes, seats, settings and measures under way, of each; 0 means 64

	Tries    int             // of a step before it is given up; 0 means 3
	BackOff  mono.Dur        // after the first failure, then twice as long each time; 0 means 1 s
	GPUTries int             // GPUs that could not join a sub-cluster, before it goes without; 0 means 2
	Timeouts [kinds]mono.Dur // by kind; 0 means a default: minutes for loads, drains and measures, 10 s for the rest
	Burst    float64         // a sub-cluster needs n + Burst*sqrt(n) GPUs for needs of n in all
}

// backOffMax bounds the wait before a retry.
const backOffMax = 60 * mono.Second

func (l *Limits) fill() {
	for _, d := range []struct {
		n   *int
		def int
	}{{&l.Loads, 64}, {&l.LoadsHost, 4}, {&l.LoadsGPU, 1}, {&l.Drained, 16}, {&l.Warming, 32}, {&l.Others, 64}, {&l.Tries, 3}, {&l.GPUTries, 2}} {
		if *d.n <= 0 {
			*d.n = d.def
		}
	}
	if l.BackOff <= 0 {
		l.BackOff = mono.Second
	}
	for k := range l.Timeouts {
		if l.Timeouts[k] <= 0 {
			l.Timeouts[k] = timeout(Kind(k))
		}
	}
}

func timeout(k Kind) mono.Dur {
	switch k {
	case Load, Measure:
		return 300 * mono.Second
	case Drain, Unload:
		return 60 * mono.Second
	}
	return 10 * mono.Second
}

// backOff after a step's tries so far.
func (l *Limits) backOff(tries int) mono.Dur {
	d := l.BackOff
	for range min(tries-1, 10) {
		d *= 2
	}
	return min(d, max(l.BackOff, backOffMax))
}
