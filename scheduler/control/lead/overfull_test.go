package lead

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// overCluster is a cluster of type t whose GPUs have 1,000 bytes each, with models of 100.
func overCluster(t *testing.T, change func(*catalog.GPUFacts), gpus ...string) *cluster {
	c := newCluster(t, Config{}, gpus...)
	for _, g := range c.gpus {
		change(g)
	}
	c.connect()
	for i := range 12 {
		m := wants("m"+string(rune('a'+i)), 1)
		m.Versions[0].Size, m.Versions[0].Digest = 100, string(catalog.DigestOf([]byte(m.Name)))
		c.lead.SetModel(c.now, m)
	}
	return c
}

// Where models do not fit into the GPUs' memory however they are divided, the preview and the notes say so and what to do: to have
// the pool paged where its devices can, else more GPUs. Where weights come and go already, or all fits, nothing is said.
func TestOverfull(t *testing.T) {
	for name, c := range map[string]struct {
		gpus   []string
		change func(*catalog.GPUFacts)
		want   string
	}{
		"it could be paged": {[]string{"a/t/0"}, func(*catalog.GPUFacts) {}, "as a paged sub-cluster: give its pools paged (backend.pools[].paged)"},
		"it cannot":         {[]string{"a/t/0"}, func(f *catalog.GPUFacts) { f.CannotPage = "its configuration says resident: true" }, "cannot come and go there, for its configuration says resident: true: add GPUs"},
		"it is":             {[]string{"a/t/0"}, func(f *catalog.GPUFacts) { f.Memory, f.Paged = 0, true }, ""},
		"they fit":          {[]string{"a/t/0", "a/t/1", "a/t/2"}, func(*catalog.GPUFacts) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := overCluster(t, c.change, c.gpus...)
			p, err := o.lead.Preview()
			if err != nil {
				t.Fatal(err)
			}
			p.Task.Solve(1, func(steps int64) bool { return steps < 1e4 }, nil, 0)
			if _, err := o.lead.Previewed(p); err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(p.Notes, "\n")
			if c.want == "" && notes != "" || !strings.Contains(notes, c.want) {
				t.Errorf("the preview says %q, want %q", notes, c.want)
			}
			var said []string
			for range 3 {
				var out Effects
				o.lead.Step(o.now, &out)
				said = append(said, out.Notes...)
				o.take(&out)
				o.now = o.now.Add(10 * second)
			}
			if told := strings.Join(said, "\n"); (c.want == "") != (strings.Count(told, "12 models take") == 0) || strings.Count(told, "12 models take") > 1 || !strings.Contains(told, c.want) {
				t.Errorf("it notes %q, want %q once", told, c.want)
			}
		})
	}
}
