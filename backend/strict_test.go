package backend

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// The devices of a strict pool begin no batch before its planned start, and the scheduler is told that they are strict.
func TestStrictPool(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, strict := range []bool{false, true} {
		c := newCluster(t)
		b := c.backend(inPages(20, 1), func(cfg *Config) { cfg.Pools[0].Strict = strict })
		c.mu.Lock()
		told := c.info.Pools[0].Strict
		c.mu.Unlock()
		c.paged(100, 1)
		_ = c.control().Send(loadOf(100, 1, 0, 10, 1).Append(nil))
		c.loaded(1)
		now := mono.Now()
		m := wire.Batch{Epoch: 100, Batch: 1, Model: 10, Exec: now.Add(600 * mono.Millisecond), Until: now.Add(610 * mono.Millisecond), Latest: now.Add(100 * mono.Second), Generation: 1,
			Items: []wire.BatchItem{{Request: 1, Frontend: 3, Deadline: now.Add(100 * mono.Second), Input: wire.SlabRef{Length: 32}}}}
		_ = c.control().Send(m.Append(nil))
		c.wait("the report of the batch", func() bool {
			return slices.ContainsFunc(c.dones, func(d wire.Done) bool {
				if d.Ran != 1 || d.Start >= m.Exec != strict || told != strict {
					t.Errorf("strict %v, told %v: %+v, planned from %v", strict, told, d, m.Exec)
				}
				return true
			})
		})
		b.Close()
		c.close()
	}
}
