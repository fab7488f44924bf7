package server

import "github.com/prometheus/client_golang/prometheus"

// groupMetrics are of a scheduler in a group; one that is alone has none of them.
type groupMetrics struct{ leads, reign, takeovers, held, heldNow, late, members *prometheus.Desc }

func newGroupMetrics() groupMetrics {
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("symphony_scheduler_"+name, help, nil, nil)
	}
	return groupMetrics{
		leads:     of("leads", "Whether this scheduler leads its group: 1, or 0 of a spare."),
		reign:     of("reign", "The reign that it leads, or of a spare the highest that it has heard of: unix nanoseconds, about."),
		takeovers: of("takeovers_total", "Times that this process began to lead."),
		held:      of("held_requests_total", "Requests that were sent again while they ran already, and were held."),
		heldNow:   of("held_requests", "Those that are held now."),
		members:   of("members", "Frontends and backends that are linked and admitted: of a spare as many as of the leader, or it would not take all over."),
		late:      of("late_heartbeats_total", "Heartbeats that were due later than a whole one after their time: this process, or its machine, stood still."),
	}
}

func (m *groupMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.leads, m.reign, m.takeovers, m.held, m.heldNow, m.late, m.members} {
		ch <- d
	}
}

func (m *groupMetrics) collect(ch chan<- prometheus.Metric, s *Server) {
	if s.group == nil {
		return
	}
	put := func(d *prometheus.Desc, t prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, t, v)
	}
	lead := s.group.lead()
	leads := 0.0
	if lead.Leads {
		leads = 1
	}
	put(m.leads, prometheus.GaugeValue, leads)
	put(m.reign, prometheus.GaugeValue, float64(lead.Epoch))
	past := s.group.past
	put(m.takeovers, prometheus.CounterValue, float64(past.takeovers.Load()))
	put(m.held, prometheus.CounterValue, float64(past.held.Load()))
	put(m.heldNow, prometheus.GaugeValue, float64(s.held.waiting.Load()))
	put(m.members, prometheus.GaugeValue, float64(s.peers.Load()))
	put(m.late, prometheus.CounterValue, float64(past.late.Load()))
}
