package scenario

import (
	"strconv"
	"strings"
)

// field is one column of a record, with its value.
type field struct{ name, value string }

// Header is the columns of CSV records: a scenario, and its outcome.
func Header() []string {
	var out []string
	for _, f := range (&Outcome{}).fields() {
		out = append(out, f.name)
	}
	return out
}

// Row is the record's values, in the order of Header.
func (o *Outcome) Row() []string {
	var out []string
	for _, f := range o.fields() {
		out = append(out, f.value)
	}
	return out
}

// fields of a scenario. Lists are joined by spaces, which none of their texts
// have.
func (s *Scenario) fields() []field {
	var models []string
	for _, m := range s.Models {
		models = append(models, m.String())
	}
	t := Trace{}
	if s.Trace != nil {
		t = *s.Trace
	}
	return []field{
		{"models", strings.Join(models, " ")}, {"gpus", strconv.Itoa(s.GPUs)}, {"policy", s.Policy}, {"rate", number(s.Rate)},
		{"arrivals", s.Arrivals}, {"popularity", s.Popularity}, {"rate_profile", s.RateProfile},
		{"trace", t.File}, {"trace_models", t.Models}, {"trace_speed", number(t.Speed)}, {"trace_loop", strconv.FormatBool(t.Loop)}, {"trace_sha256", t.Sum},
		{"network", s.Network}, {"network_bound", s.Bound}, {"jitter", number(s.Jitter)}, {"pauses", strings.Join(s.Pauses, " ")}, {"margin", s.Margin},
		{"gpu_events", strings.Join(s.Events, " ")},
		{"detection_ns", whole(int64(s.Detection))}, {"warmup_ns", whole(int64(s.Warmup))}, {"duration_ns", whole(int64(s.Duration))},
		{"frontends", strconv.Itoa(s.Frontends)}, {"seed", strconv.FormatUint(s.Seed, 10)},
	}
}

func (o *Outcome) fields() []field {
	search := Search{}
	mode := "run"
	if o.Search != nil {
		search, mode = *o.Search, "goodput"
	}
	if o.Least != nil {
		mode = "least-gpus"
	}
	a := &o.All
	out := append([]field{{"version", o.Version}, {"sim_core", strconv.Itoa(o.Core)}, {"mode", mode}}, o.Scenario.fields()...)
	out = append(out,
		field{"tolerance", number(search.Tolerance)}, field{"found_rps", number(search.Rate)}, field{"too_high_rps", number(search.TooHigh)},
		field{"runs", strconv.Itoa(search.Runs)}, field{"requests", whole(search.Requests)}, field{"judged", whole(search.Judged)},
		field{"arrived", whole(a.Arrived)}, field{"offered_rps", number(a.Offered)}, field{"goodput_rps", number(a.Goodput)}, field{"bad_rate", number(a.BadRate)})
	for _, r := range Reasons() {
		out = append(out, field{"bad_" + r, whole(a.Bad[r])})
	}
	least := Least{}
	if o.Least != nil {
		least = *o.Least
	}
	return append(out,
		field{"queue_p50_ms", number(a.QueueP50)}, field{"queue_p99_ms", number(a.QueueP99)}, field{"latency_p50_ms", number(a.LatencyP50)}, field{"latency_p99_ms", number(a.LatencyP99)}, field{"batch_mean", number(a.Batch)},
		field{"gpu_busy", number(o.GPUBusy)}, field{"gpus_used", strconv.Itoa(o.GPUsUsed)}, field{"gpus_most", strconv.Itoa(o.GPUsMost)}, field{"gpu_lost", number(o.Lost)},
		field{"least_gpus", strconv.Itoa(least.GPUs)}, field{"least_fails", strconv.Itoa(least.Fails)}, field{"least_bad_rate", number(least.BadRate)},
		field{"least_queue_p99_ns", whole(int64(least.QueueP99))}, field{"least_latency_p99_ns", whole(int64(least.LatencyP99))},
		field{"need_gpus", number(o.Need)}, field{"need_peak_gpus", number(o.NeedPeak)}, field{"hopeless", whole(o.Hopeless)})
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func whole(v int64) string { return strconv.FormatInt(v, 10) }
