package main

import "fmt"

// models is what the owner of a model looks at.
func models() dashboard {
	const of = `{model=~"$model"}`
	rate := func(metric, matchers, by string) string {
		return fmt.Sprintf(`sum by (%s) (rate(%s{model=~"$model"%s}[$__rate_interval]))`, by, metric, matchers)
	}
	quantile := func(q, metric, matchers, by string) string {
		return fmt.Sprintf(`histogram_quantile(%s, sum by (le, %s) (rate(%s_bucket{model=~"$model"%s}[$__rate_interval])))`, q, by, metric, matchers)
	}
	graphs := []graph{
		{row: "Requests"},
		{title: "Offered", about: "Requests that were answered, whatever the answer; those that were their caller's mistake left out.", unit: "reqps",
			queries: []query{{expr: rate("symphony_requests_total", `, outcome!~"`+notCounted+`"`, "model"), legend: "{{model}}"}}},
		{title: "Goodput", about: "Requests served within their deadline.", unit: "reqps",
			queries: []query{{expr: rate("symphony_requests_total", `, outcome="ok"`, "model"), legend: "{{model}}"}}},
		{title: "Bad, by reason", about: "dropped: given up before execution; late: served after the deadline; expired: no answer came; overloaded: a queue or the arena was full.", unit: "reqps", stacked: true,
			queries: []query{{expr: rate("symphony_requests_total", `, outcome=~"`+badOutcomes+`"`, "outcome"), legend: "{{outcome}}"}}},
		{row: "Latency"},
		{title: "p99 beside the SLO", about: "Of served requests. Dots are traces (exemplars), where frontends make some.", unit: "s",
			queries: []query{{expr: quantile("0.99", "symphony_request_duration_seconds", "", "model"), legend: "{{model}} p99", exemplars: true},
				{expr: "max by (model) (symphony_model_slo_seconds" + of + ")", legend: "{{model}} SLO"}}},
		{title: "Median", unit: "s", queries: []query{{expr: quantile("0.5", "symphony_request_duration_seconds", "", "model"), legend: "{{model}}"}}},
		{title: "Where the time goes, p99 of each stage", about: "queue: deferral and waiting for a GPU; fetch: inputs to the backend; reply: output back to the frontend.", unit: "s",
			queries: []query{{expr: quantile("0.99", "symphony_stage_duration_seconds", "", "stage"), legend: "{{stage}}"}}},
		{row: "Batches and budget"},
		{title: "Mean batch size", about: "That a request ran in.", unit: "none",
			queries: []query{{expr: rate("symphony_batch_size_sum", "", "model") + " / " + rate("symphony_batch_size_count", "", "model"), legend: "{{model}}"}}},
		{title: "Bad ratio, 5 minutes and 1 hour", about: "What the alerts of rules.yaml look at.", unit: "percentunit",
			queries: []query{{expr: "symphony:bad_ratio:rate5m" + of, legend: "{{model}} 5m"}, {expr: "symphony:bad_ratio:rate1h" + of, legend: "{{model}} 1h"}}},
		{title: "Bad ratio, 3 days", about: "Beside the objective: what is left of the budget.", unit: "percentunit",
			queries: []query{{expr: "symphony:bad_ratio:rate3d" + of, legend: "{{model}}"}}},
		{row: "HTTP"},
		{title: "By status", unit: "reqps", stacked: true, queries: []query{{expr: `sum by (code) (rate(symphony_http_requests_total{route=~"infer|classify"}[$__rate_interval]))`, legend: "{{code}}"}}},
		{title: "p99 of the ingress", about: "From the headers to the answer, the client's upload included.", unit: "s",
			queries: []query{{expr: `histogram_quantile(0.99, sum by (le, route) (rate(symphony_http_request_duration_seconds_bucket{route=~"infer|classify"}[$__rate_interval])))`, legend: "{{route}}", exemplars: true}}},
		{title: "Open requests", unit: "none", queries: []query{{expr: "sum by (instance) (symphony_requests_in_flight)", legend: "{{instance}}"}}},
	}
	return page("symphony-models", "Symphony: models", "Load, goodput, latency against the SLO and the budget of bad requests, by model.", graphs,
		choice("model", "Model", "symphony_requests_total"))
}

// cluster is what the operator of GPUs and schedulers looks at.
func cluster() dashboard {
	const of = `{pool=~"$pool"}`
	rate := func(metric, by string) string {
		return fmt.Sprintf(`sum by (%s) (rate(%s{pool=~"$pool"}[$__rate_interval]))`, by, metric)
	}
	graphs := []graph{
		{row: "GPUs"},
		{title: "GPUs: present, needed, advised", about: "Needed: what deferral alone would keep busy with what arrives.", unit: "none",
			queries: []query{{expr: "sum by (pool) (symphony_gpus" + of + ")", legend: "{{pool}} present"}, {expr: "sum by (pool) (symphony_need_gpus" + of + ")", legend: "{{pool}} needed"},
				{expr: "sum by (device_type) (symphony_control_advice_gpus)", legend: "{{device_type}} advised"}}},
		{title: "Busy share of each GPU", about: "Ids fill up from the smallest on: those with high ones are free to be released.", unit: "percentunit", share: true,
			queries: []query{{expr: rate("symphony_gpu_busy_seconds_total", "pool, gpu"), legend: "{{pool}} {{gpu}}"}}},
		{title: "Batches", unit: "ops", queries: []query{{expr: rate("symphony_gpu_batches_total", "pool"), legend: "{{pool}}"}}},
		{title: "Out of service, failed", unit: "none",
			queries: []query{{expr: "sum by (instance, pool) (symphony_backend_out_of_service" + of + ")", legend: "{{instance}} {{pool}} out"}, {expr: rate("symphony_backend_failed_total", "cause"), legend: "{{cause}}, requests/s"}}},
		{title: "Inputs to backends, p99", about: "From an order's arrival until all inputs were there.", unit: "s",
			queries: []query{{expr: `histogram_quantile(0.99, sum by (le, pool) (rate(symphony_backend_fetch_seconds_bucket{pool=~"$pool"}[$__rate_interval])))`, legend: "{{pool}}"}}},
		{title: "Input bytes, by the way taken", unit: "Bps", queries: []query{{expr: "sum by (transport) (rate(symphony_input_read_bytes_total[$__rate_interval]))", legend: "{{transport}}"}}},
		{row: "Scheduling"},
		{title: "Deferral that is spent", about: "1: batches wait as long as they can; 0: they start when a GPU is free. The tuner simulates which loses least.", unit: "percentunit", share: true,
			queries: []query{{expr: "max by (pool, setting) (symphony_tuner_deferral" + of + ")", legend: "{{pool}} {{setting}}"}}},
		{title: "Drops, by reason", unit: "reqps", stacked: true, queries: []query{{expr: "sum by (reason) (rate(symphony_drops_total[$__rate_interval]))", legend: "{{reason}}"}}},
		{title: "Queued or running", unit: "none", queries: []query{{expr: "sum by (pool) (symphony_queue_requests" + of + ")", legend: "{{pool}}"}}},
		{title: "Loops: busy share", about: "Near 1 a loop does not keep up.", unit: "percentunit", share: true, queries: []query{{expr: rate("symphony_loop_busy_seconds_total", "pool, loop"), legend: "{{pool}} {{loop}}"}}},
		{title: "Loops: p99 lateness", about: "How late orders leave. Above a millisecond or two the host is at fault: symphony doctor.", unit: "s",
			queries: []query{{expr: `histogram_quantile(0.99, sum by (le, pool, loop) (rate(symphony_loop_lateness_seconds_bucket{pool=~"$pool"}[$__rate_interval])))`, legend: "{{pool}} {{loop}}"}}},
		{title: "Network delay reckoned with", unit: "s", queries: []query{{expr: "max by (pool, part) (symphony_network_delay_bound_seconds" + of + ")", legend: "{{pool}} {{part}}"}}},
		{row: "Parts"},
		{title: "Links, by the way taken", unit: "none", queries: []query{{expr: "sum by (instance, transport) (symphony_links)", legend: "{{instance}} {{transport}}"}}},
		{title: "Schedulers: linked, leading", unit: "none",
			queries: []query{{expr: "min by (scheduler) (symphony_frontend_linked)", legend: "{{scheduler}} linked"}, {expr: "max by (instance) (symphony_scheduler_leads)", legend: "{{instance}} leads"}}},
		{title: "Control plane", unit: "none",
			queries: []query{{expr: "sum by (state) (symphony_control_versions)", legend: "versions {{state}}"}, {expr: "max(symphony_control_store_away)", legend: "etcd away"}, {expr: "sum(symphony_control_leads)", legend: "leading controllers"}}},
	}
	return page("symphony-cluster", "Symphony: GPUs and schedulers", "Devices, deferral, the scheduler's loops, links and the control plane.", graphs,
		choice("pool", "Pool", "symphony_gpus"))
}
