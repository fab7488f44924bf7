package lead

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// throng is a leader of 200 GPUs of five sub-clusters that serve 10,000 models, as it is when
// nothing happens but requests.
func throng(tb testing.TB) (c *cluster, docs []*catalog.Facts) {
	const gpus, models, subs, docMax = 200, 10000, 5, 2048
	var all []string
	for i := range gpus {
		all = append(all, fmt.Sprintf("h%03d/t/%d", i/8, i%8))
	}
	c = newCluster(tb, Config{SubClusters: subs, Interval: 1e6 * second}, all...)
	var parts []schema.SubCluster
	for i := range subs {
		parts = append(parts, schema.SubCluster{Epoch: 1, Name: nameOf("t", i), DeviceType: "t", GPUs: gpus / subs, Need: gpus / subs / 2})
	}
	for i := range models {
		name, s := fmt.Sprintf("m%05d", i), &parts[i%subs]
		s.Models = append(s.Models, name+"/1")
		c.lead.SetModel(c.now, wants(name, 1))
		c.routes[name+"/1"] = catalog.ModelFacts{Key: name + "/1", DeviceType: "t", In: s.Name}
	}
	for i, name := range all {
		s := &parts[i%subs]
		c.gpus[name].In, c.gpus[name].Memory = s.Name, 1<<40
		for _, key := range s.Models {
			c.stock[name][key] = catalog.StateReady
		}
	}
	c.lead.Restore(schema.Plan{Epoch: 1, State: schema.InForce}, parts)
	c.connect()
	c.lead.due = mono.Never // it would be divided anew
	c.run(10 * second)
	if c.lead.phase != plan.Done {
		tb.Fatalf("it is %v: %v", c.lead.phase, c.story)
	}
	doc := &catalog.Facts{Epoch: 1}
	for _, key := range names(c.routes) {
		if doc.Models = append(doc.Models, c.routes[key]); len(doc.Models) == docMax {
			docs, doc = append(docs, doc), &catalog.Facts{Epoch: 1}
		}
	}
	for _, s := range c.lead.plan.SubClusters {
		doc.SubClusters = append(doc.SubClusters, catalog.SubClusterFacts{Name: s.Name, DeviceType: "t", GPUs: s.GPUs, Models: len(s.Models), Need: 20, Rate: 1})
	}
	return c, append(docs, doc)
}

// rates are those of another second.
func (c *cluster) rates(docs []*catalog.Facts, turn int) {
	for _, doc := range docs {
		for i := range doc.Models {
			m := &doc.Models[i]
			m.Rate, m.Served = 10+float64((turn+i)%7), m.Served+10
			m.Need = m.Rate / 1e4
		}
	}
}

// BenchmarkSecond is a second of a leader whose cluster serves 10,000 models that are all asked for:
// what one takes is its share of a processor. It is told of all of them at once, or, as schedulers do,
// in turns, with the reading of the documents.
func BenchmarkSecond(b *testing.B) {
	for name, read := range map[string]bool{"all": false, "turns": true} {
		b.Run(name, func(b *testing.B) { benchSecond(b, read) })
	}
}

func benchSecond(b *testing.B, read bool) {
	c, docs := throng(b)
	var seconds [2][][]byte
	for turn := range seconds {
		c.rates(docs, turn)
		for _, doc := range docs {
			payload, err := json.Marshal(doc)
			if err != nil {
				b.Fatal(err)
			}
			seconds[turn] = append(seconds[turn], payload)
		}
	}
	turn := 0
	for b.Loop() {
		if turn++; !read {
			c.rates(docs, turn)
		}
		for i, doc := range docs {
			if read && i != turn%len(docs) {
				continue
			}
			if read {
				said, err := catalog.DecodeFacts(seconds[turn%2][i])
				if err != nil {
					b.Fatal(err)
				}
				doc = &said
			}
			c.now = c.now.Add(mono.Millisecond)
			c.lead.Facts(c.now, doc)
			var out Effects
			c.lead.Step(c.now, &out)
			if len(out.Orders) > 0 {
				b.Fatalf("ordered %+v", out.Orders[0])
			}
		}
		c.now = c.now.Add(mono.Second)
	}
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N), "%processor")
}
