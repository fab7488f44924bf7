package ingress

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// statistics count what this ingress has served, as Triton's statistics
// extension tells it.
type statistics struct {
	client Inferrer // says which models are there
	took   took     // by requests, of all models

	mu     sync.RWMutex // Guards what follows.
	models map[string]*modelStatistics
	many   int // how many versions there may be before those that are gone are forgotten
	n      int // how many there are
}

// statisticsMin is how many versions' counts are kept without a look at the catalogue.
const statisticsMin = 256

func newStatistics(client Inferrer) *statistics {
	return &statistics{client: client, models: map[string]*modelStatistics{}, many: statisticsMin}
}

// forget drops the counts of versions that are not in the catalogue. Caller holds mu.
func (s *statistics) forget() {
	there := map[string]bool{}
	for _, e := range s.client.Models().Entries {
		there[e.Spec.Key()] = true
	}
	all := s.models
	s.models, s.n = map[string]*modelStatistics{}, 0
	for name, m := range all {
		for next := m; m != nil; m = next {
			if next = m.next; there[m.name+"/"+m.version] {
				m.next, s.models[name] = s.models[name], m
				s.n++
			}
		}
	}
	s.many = max(statisticsMin, 2*s.n)
}

// of finds or makes a model's.
func (s *statistics) of(spec *catalog.ModelSpec) *modelStatistics {
	s.mu.RLock()
	m := s.models[spec.Name]
	for m != nil && m.version != spec.Version {
		m = m.next
	}
	s.mu.RUnlock()
	if m != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for m = s.models[spec.Name]; m != nil; m = m.next {
		if m.version == spec.Version {
			return m
		}
	}
	if s.n++; s.n > s.many {
		s.forget()
		s.n++
	}
	m = &modelStatistics{name: spec.Name, version: spec.Version, all: s, next: s.models[spec.Name], batches: map[int]*batchStatistics{}}
	s.models[spec.Name] = m
	return m
}

// modelStatistics are one version's.
type modelStatistics struct {
	name, version string
	all           *statistics
	next          *modelStatistics // another version of the name
	took          took             // by requests, of answers that came lately

	mu         sync.Mutex // Guards what follows.
	last       time.Time
	items      uint64  // inferences, without errors
	executions float64 // each item's share of its batch: they sum to batches
	success    span    // requests, as the following: of each the times of the item that took longest
	fail       span
	queue      span
	fetch      span
	execute    span
	reply      span
	batches    map[int]*batchStatistics
}

// batchStatistics are those of one batch size.
type batchStatistics struct {
	executions float64
	fetch      time.Duration
	execute    time.Duration
	reply      time.Duration
}

// span is a count and a sum of times.
type span struct {
	count uint64
	total time.Duration
}

func (s *span) add(d time.Duration) { s.count, s.total = s.count+1, s.total+max(d, 0) }

func (s *span) doc() object { return object{"count": s.count, "ns": s.total.Nanoseconds()} }

// failed counts one request that ended with an error, and how long it took.
func (m *modelStatistics) failed(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail.add(took)
}

// record counts one request that was served: its items' answers.
func (m *modelStatistics) record(answers []*frontend.Response) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = time.Now()
	slowest := answers[0]
	for _, a := range answers {
		if a.Total > slowest.Total {
			slowest = a
		}
		m.items++
		share := 1 / float64(max(a.BatchSize, 1))
		m.executions += share
		b := m.batches[a.BatchSize]
		if b == nil {
			b = &batchStatistics{}
			m.batches[a.BatchSize] = b
		}
		b.executions += share
		b.fetch += time.Duration(float64(a.Fetch) * share)
		b.execute += time.Duration(float64(a.Execute) * share)
		b.reply += time.Duration(float64(a.Reply) * share)
	}
	m.success.add(slowest.Total)
	m.queue.add(slowest.Queue)
	m.fetch.add(slowest.Fetch)
	m.execute.add(slowest.Execute)
	m.reply.add(slowest.Reply)
	m.took.add(slowest.Total)
	m.all.took.add(slowest.Total)
}

// doc is Triton's document. The three compute counts are equal: perf_analyzer
// insists.
func (m *modelStatistics) doc() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	batches := []object{}
	for _, size := range slices.Sorted(maps.Keys(m.batches)) {
		b := m.batches[size]
		n := uint64(b.executions + 0.5)
		of := func(d time.Duration) object { return object{"count": n, "ns": d.Nanoseconds()} }
		batches = append(batches, object{"batch_size": size, "compute_input": of(b.fetch), "compute_infer": of(b.execute), "compute_output": of(b.reply)})
	}
	last := int64(0)
	if !m.last.IsZero() {
		last = m.last.UnixMilli()
	}
	none := object{"count": 0, "ns": 0}
	return object{"name": m.name, "version": m.version, "last_inference": last,
		"inference_count": m.items, "execution_count": uint64(m.executions + 0.5),
		"inference_stats": object{"success": m.success.doc(), "fail": m.fail.doc(), "queue": m.queue.doc(),
			"compute_input": m.fetch.doc(), "compute_infer": m.execute.doc(), "compute_output": m.reply.doc(),
			"cache_hit": none, "cache_miss": none},
		"batch_stats": batches, "memory_usage": []object{}}
}

// statsOne serves .../stats.
func (s *Server) statsOne(x *exchange) error {
	e, err := s.entry(x)
	if err != nil {
		return err
	}
	return x.json(200, s.statsOf(&e))
}

// statsAll serves /v2/models/stats.
func (s *Server) statsAll(x *exchange) error {
	return x.json(200, s.statsOf(nil))
}

// statsOf is the document of one version, or with nil of all.
func (s *Server) statsOf(e *catalog.Entry) object {
	docs := []object{}
	if e != nil {
		docs = append(docs, s.stats.of(&e.Spec).doc())
		return object{"model_stats": docs}
	}
	for _, e := range s.cfg.Client.Models().Entries {
		docs = append(docs, s.stats.of(&e.Spec).doc())
	}
	return object{"model_stats": docs}
}
