package main

import (
	"fmt"
	"strconv"
)

// objectiveDefault is the share of requests that the Symphony paper's goodput allows for: 1 % bad.
const objectiveDefault = 0.99

// Outcomes of symphony_requests_total. Neither good nor bad is what its caller did wrong or gave up.
const (
	badOutcomes = "late|dropped|expired|overloaded|unavailable|failed|other"
	notCounted  = "bad_input|cancelled"
)

// group is a set of rules, as Prometheus reads it.
type group struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval,omitempty"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type ruleFile struct {
	Groups []group `yaml:"groups"`
}

// burn is an alert on how fast a model's budget of bad requests is spent: so many times as fast as
// would last for 30 days, over a long window, and over a short one, so that it ends soon after what
// caused it. (The windows and factors are those of Google's SRE workbook, chapter 5.)
type burn struct {
	factor      float64
	long, short string
	severity    string
}

func burns() []burn {
	return []burn{{14.4, "1h", "5m", "page"}, {6, "6h", "30m", "page"}, {3, "1d", "2h", "ticket"}, {1, "3d", "6h", "ticket"}}
}

// windows are those of all burns, with their seconds.
func windows() []struct {
	name    string
	seconds int
} {
	return []struct {
		name    string
		seconds int
	}{{"5m", 300}, {"30m", 1800}, {"1h", 3600}, {"2h", 7200}, {"6h", 21600}, {"1d", 86400}, {"3d", 259200}}
}

// badLeast is how many bad requests a long window must have: one of three is no fire.
const badLeast = 10

func rules(objective float64) ruleFile {
	return ruleFile{[]group{
		{Name: "symphony-slo-records", Interval: "30s", Rules: records()},
		{Name: "symphony-slo", Rules: sloAlerts(objective)},
		{Name: "symphony", Rules: alerts()},
	}}
}

func records() (out []rule) {
	for _, w := range windows() {
		sum := func(matcher string) string {
			return fmt.Sprintf(`sum by (namespace, model) (rate(symphony_requests_total{%s}[%s]))`, matcher, w.name)
		}
		out = append(out,
			rule{Record: "symphony:requests_counted:rate" + w.name, Expr: sum(`outcome!~"` + notCounted + `"`)},
			rule{Record: "symphony:requests_bad:rate" + w.name, Expr: sum(`outcome=~"` + badOutcomes + `"`)},
			// Nothing counted is nothing bad: no division by zero, and no NaN that no alert sees.
			rule{Record: "symphony:bad_ratio:rate" + w.name, Expr: fmt.Sprintf("symphony:requests_bad:rate%s / (symphony:requests_counted:rate%s > 0)", w.name, w.name)})
	}
	return out
}

func sloAlerts(objective float64) (out []rule) {
	seconds := map[string]int{}
	for _, w := range windows() {
		seconds[w.name] = w.seconds
	}
	for _, b := range burns() {
		limit := strconv.FormatFloat(b.factor*(1-objective), 'g', 4, 64)
		out = append(out, rule{Alert: "SymphonySLOBurn", For: map[string]string{"page": "2m", "ticket": "15m"}[b.severity],
			Expr: fmt.Sprintf("symphony:bad_ratio:rate%s > %s and symphony:bad_ratio:rate%s > %s and symphony:requests_bad:rate%s * %d >= %d",
				b.long, limit, b.short, limit, b.long, seconds[b.long], badLeast),
			Labels: map[string]string{"severity": b.severity, "window": b.long},
			Annotations: map[string]string{
				"summary":     fmt.Sprintf("model {{ $labels.model }}: {{ $value | humanizePercentage }} of its requests of %s were not served in time", b.long),
				"description": fmt.Sprintf("It spends its budget of bad requests (objective %g) %g times as fast as would last 30 days. By reason: sum by (outcome) (rate(symphony_requests_total{model=\"{{ $labels.model }}\"}[5m])). Are GPUs scarce (symphony advice)? Has its latency changed (symphony_stage_duration_seconds)?", objective, b.factor)}})
	}
	return out
}

// alert is one that is not about a model.
func alert(name, severity, wait, expr, summary, description string) rule {
	return rule{Alert: name, Expr: expr, For: wait, Labels: map[string]string{"severity": severity},
		Annotations: map[string]string{"summary": summary, "description": description}}
}

func alerts() []rule {
	return []rule{
		alert("SymphonySchedulerAway", "page", "1m", `max by (namespace, scheduler) (symphony_frontend_linked) == 0`,
			"no frontend is linked to the scheduler at {{ $labels.scheduler }}", "Its models' requests are answered unavailable, unless another scheduler of its group leads. Is its process there? Its log, and those of the frontends, say why."),
		alert("SymphonyNoLeader", "page", "1m", `max by (namespace, job) (symphony_scheduler_leads) == 0`,
			"no scheduler of a group leads", "Requests wait up to their deadlines. A spare takes over with the promises of the backends that it reaches: do any?"),
		alert("SymphonyDevicesOut", "ticket", "10m", `sum by (namespace, instance, pool) (symphony_backend_out_of_service) > 0`,
			"{{ $value }} devices of {{ $labels.instance }} are out of service", "The backend's log says why, and when they return. If they do not, restart the backend, then look at the host (symphony doctor there)."),
		alert("SymphonyGPUsScarce", "ticket", "10m", `symphony_need_gpus > 0.95 * symphony_gpus and symphony_gpus > 0`,
			"pool {{ $labels.pool }} needs nearly all of its GPUs", "More load will be dropped. symphony advice says how many there should be."),
		alert("SymphonyLoopsLate", "ticket", "10m",
			`histogram_quantile(0.99, sum by (namespace, instance, pool, loop, le) (rate(symphony_loop_lateness_seconds_bucket[5m]))) > 0.002`,
			"the {{ $labels.loop }} loop of {{ $labels.instance }} acts {{ $value | humanizeDuration }} late", "Something takes the scheduler's processors from it. symphony doctor on that host says what to change."),
		alert("SymphonyRingFull", "ticket", "", `sum by (namespace, instance, pool) (increase(symphony_loop_ring_full_total[5m])) > 0`,
			"the scheduler {{ $labels.instance }} refused requests at its door", "Its loops do not keep up with what arrives: more model loops (scheduler.model_loops), or more schedulers."),
		alert("SymphonyControlStoreAway", "ticket", "10m", `symphony_control_store_away == 1`,
			"the control plane's etcd does not answer", "What is served goes on; models and plans cannot be changed until it is back."),
		alert("SymphonyControllerGone", "ticket", "10m", `symphony_scheduler_controllers == 0 and max_over_time(symphony_scheduler_controllers[1d]) > 0`,
			"no controller is connected to the scheduler {{ $labels.instance }}", "What is served goes on; models cannot be changed, and nothing scales. Start it again."),
		alert("SymphonyInputsUnread", "ticket", "10m", `sum by (namespace, instance, model) (rate(symphony_backend_stale_reads_total[5m])) > 0.1`,
			"the backend {{ $labels.instance }} finds inputs gone when it reads them", "Requests expire before their batch begins: is the network between backend and frontends slow (symphony_backend_fetch_seconds)?"),
		alert("SymphonyAccessLogLost", "ticket", "10m", `rate(symphony_access_log_lines_total{what="lost"}[5m]) > 0`,
			"{{ $labels.instance }} loses lines of its access log", "Beyond frontend.access_rate, or the file cannot be written: the process's log says so then."),
	}
}
