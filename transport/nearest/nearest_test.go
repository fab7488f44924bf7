package nearest

import "testing"

func TestOf(t *testing.T) {
	known := []string{"slo", "max_batch", "drop_policy", "source"}
	for unknown, want := range map[string]string{"slo": "slo", "SLO": "slo", "sla": "slo", "max_bach": "max_batch", "maxbatch": "max_batch",
		"droppolicy": "drop_policy", "url": "", "": "", "policy": "drop_policy", "drop": "drop_policy", "dr": "", "sources": "source"} {
		if got := Of(unknown, known); got != want {
			t.Errorf("%q: %q, want %q", unknown, got, want)
		}
	}
	if got := Text("sorce", known); got != ", the nearest is source" {
		t.Errorf("%q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}} {
		if got := Distance(c.a, c.b); got != c.want || Distance(c.b, c.a) != c.want {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
