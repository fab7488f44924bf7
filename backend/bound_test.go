package backend

import (
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Ids that cannot be the models' end the link with a reason, and leave those that hold;
// the backend registers anew.
func TestWrongBound(t *testing.T) {
	for _, k := range []struct {
		why   string
		bound any
	}{
		{"pool -1", catalog.Bound{Pool: -1, IDs: []wire.ModelID{1, 2}}},
		{"pool 1", catalog.Bound{Pool: 1, IDs: []wire.ModelID{1, 2}}},
		{"ids of 1 models", catalog.Bound{IDs: []wire.ModelID{1}}},
		{"ids of 3 models", catalog.Bound{IDs: []wire.ModelID{1, 2, 3}}},
		{"ids of 0 models", catalog.Bound{}},
		{"model id 4294967295", catalog.Bound{IDs: []wire.ModelID{1, 1<<32 - 1}}},
		{"model id 65536", catalog.Bound{IDs: []wire.ModelID{modelsMax, 1}}},
		{"given twice", catalog.Bound{IDs: []wire.ModelID{5, 5}}},
		{"cannot unmarshal", "no ids"},
	} {
		log := &lines{}
		c := newCluster(t)
		b := c.backend(func(cfg *Config) { cfg.Logger = zerolog.New(log) })
		c.admit(100)
		c.wait("the ids", func() bool { return b.table() != nil })
		held := slices.Clone(*b.table())
		first := c.control()
		c.tell(wire.DocBound, k.bound)
		c.wait("a new registration", func() bool { return c.link != nil && c.link != first })
		if len(log.about("lost the scheduler", k.why, "broke the protocol")) != 1 {
			t.Errorf("%s: not said in\n%s", k.why, log.all.String())
		}
		if got := *b.table(); !slices.Equal(got, held) {
			t.Errorf("%s: the ids are %v, were %v", k.why, got, held)
		}
		b.Close()
		c.close()
	}
}

// New ids of the same epoch take the place of the old ones.
func TestBoundAgain(t *testing.T) {
	c := newCluster(t)
	defer c.close()
	b := c.backend()
	defer b.Close()
	c.admit(100)
	c.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{9, 4}})
	c.wait("the ids", func() bool { p := b.table(); return p != nil && len(*p) > 4 && (*p)[4].pool == 0 })
	for id, want := range map[int]modelRef{9: {pool: 0, index: 0}, 4: {pool: 0, index: 1}, 10: {pool: -1}} {
		if got := (*b.table())[id]; got.pool != want.pool || want.pool == 0 && got.index != want.index {
			t.Errorf("id %d is %+v, want %+v", id, got, want)
		}
	}
}

// A refusal is told in the scheduler's words.
func TestNotAdmitted(t *testing.T) {
	log := &lines{}
	c := newCluster(t)
	defer c.close()
	b := c.backend(func(cfg *Config) { cfg.Logger = zerolog.New(log) })
	defer b.Close()
	first := c.control()
	c.tell(wire.DocAdmitted, catalog.Admitted{Error: "inputs is x FP32[4] here, and x FP32[5] on a"})
	c.wait("another attempt", func() bool { return c.link != nil && c.link != first })
	if b.Ready() || len(log.about("inputs is x FP32[4] here, and x FP32[5] on a")) == 0 {
		t.Errorf("ready %v, log\n%s", b.Ready(), strings.Join(log.about(""), "\n"))
	}
}
