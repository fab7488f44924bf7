package bench

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/soak"
)

func TestSoakRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--duration=0s": "spans",
		"--every=0s":    "spans",
		"--load=0":      "a load of 0",
		"--load=1.5":    "a load of 1.5",
		"--slack=0.5":   "--slack: 0.5",
		"--faults=kill": `--faults: "kill" is none of backend_kill`,
	} {
		if _, err := parsed[soakCmd](t, strings.Fields(flags)...).config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", flags, err, want)
		}
	}
}

// Slack stretches SLOs and batches alike, so the same load is fewer requests.
func TestSoakSlack(t *testing.T) {
	plain, err := parsed[soakCmd](t).config()
	if err != nil {
		t.Fatal(err)
	}
	slack, err := parsed[soakCmd](t, "--slack=4").config()
	if err != nil {
		t.Fatal(err)
	}
	if r := plain.Rate() / slack.Rate(); r < 3.9 || r > 4.1 || slack.Models[0].SLO != 4*plain.Models[0].SLO {
		t.Errorf("rates %.1f and %.1f r/s, SLOs %v and %v", plain.Rate(), slack.Rate(), plain.Models[0].SLO, slack.Models[0].SLO)
	}
	if len(plain.Kinds) != len(soak.Kinds()) || len(soak.PlanOf(plain)) < 90 {
		t.Errorf("%d kinds, %d faults in half an hour", len(plain.Kinds), len(soak.PlanOf(plain)))
	}
}
