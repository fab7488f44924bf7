package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const eventsHelp = "must be join:GPU@TIME, leave:GPU@TIME or fail:GPU@TIME, as in fail:3@2s"

// parseEvents reads GPUs that come and go. Ids are dense: a GPU that joins was
// there before, or has the next id. An event that could do nothing (a GPU that
// is gone leaves, an instant past the run's end) is refused. What runs on a GPU
// that leaves is cut (sim.Leave).
func parseEvents(texts []string, gpus int, end mono.Time) ([]sim.GPUEvent, error) {
	var events []sim.GPUEvent
	for _, text := range texts {
		e, ok := parseEvent(text)
		if !ok {
			return nil, refuse("gpu-event", "%q, %s", text, eventsHelp)
		}
		if e.At >= end {
			return nil, refuse("gpu-event", "%q: the run ends at %v, with --warmup and --duration", text, end)
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b sim.GPUEvent) int { return int(a.At - b.At) })
	alive := make([]bool, gpus)
	for i := range alive {
		alive[i] = true
	}
	for _, e := range events {
		id := int(e.GPU)
		switch {
		case e.Kind == sim.Join && id > len(alive):
			return nil, refuse("gpu-event", "GPU %d joins at %v, but the next new id is %d", id, e.At, len(alive))
		case e.Kind == sim.Join && id == len(alive):
			alive = append(alive, true)
		case e.Kind == sim.Join && alive[id]:
			return nil, refuse("gpu-event", "GPU %d joins at %v, but it is there already", id, e.At)
		case e.Kind != sim.Join && (id >= len(alive) || !alive[id]):
			return nil, refuse("gpu-event", "GPU %d goes at %v, but it is not there then", id, e.At)
		default:
			alive[id] = e.Kind == sim.Join
		}
	}
	if len(alive) == 0 {
		return nil, refuse("gpus", "0, must be at least 1 (or have a GPU join: --gpu-event join:0@1s)")
	}
	return events, nil
}

func parseEvent(text string) (e sim.GPUEvent, ok bool) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "join":
		e.Kind = sim.Join
	case "leave":
		e.Kind = sim.Leave
	case "fail":
		e.Kind = sim.Fail
	default:
		return e, false
	}
	gpu, at, _ := strings.Cut(rest, "@")
	id, err := strconv.Atoi(gpu)
	if err != nil || id < 0 || id >= gpusMax {
		return e, false
	}
	t, err := time.ParseDuration(at)
	e.GPU, e.At = wire.GPUID(id), mono.Time(t)
	return e, err == nil && t >= 0
}

func isFailure(event string) bool { return strings.HasPrefix(event, "fail:") }
