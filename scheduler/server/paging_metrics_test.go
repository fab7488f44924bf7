package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// A model that was removed, and is back under another id while what was sent before is served, has one series: with two of the same
// labels nothing at all could be gathered.
func TestSeriesOfAModelThatLeaves(t *testing.T) {
	p := &pool{deviceType: "v100", paged: &catalog.Paged{Page: pageOf, Pages: 4}}
	models := make([]served, 3)
	for i, left := range []*leaving{nil, {}, nil} {
		s := spec([]string{"m0", "m1", "m1"}[i])
		models[i] = served{pool: p, count: &modelCount{}, spec: &s, leaving: left}
		models[i].count.warm.Add(1)
	}
	ch, m := make(chan prometheus.Metric, 16), newPagingMetrics()
	m.collectModels(ch, models)
	if n := len(ch); n != 4 {
		t.Errorf("%d series of two models, want a cold and a warm one of each", n)
	}
}
