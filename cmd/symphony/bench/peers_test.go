package bench

import (
	"strings"
	"testing"
)

func TestPeersConfig(t *testing.T) {
	for flags, want := range map[string]int{"": 2, "--cases=one --quick": 1, "--cases=four --rates=10,20": 1} {
		cfg, err := parsed[peersCmd](t, append(strings.Fields(flags), "--symphony=/nowhere")...).config()
		if err != nil || len(cfg.Cases) != want || len(cfg.Arrivals) != 2 || len(cfg.Systems) != 4 || cfg.Symphony != "/nowhere" {
			t.Errorf("%q: %+v, %v, want %d cases", flags, cfg, err, want)
		}
	}
	for flag, want := range map[string]string{"--cases=five": `case "five"`, "--arrivals=late": "late", "--sweep-from=/nowhere": "/nowhere",
		"--rounds=0": "--rounds: 0, must be", "--rounds=-1": "--rounds: -1", "--span=0s": "--span: 0s, must be", "--span=-1s": "--span: -1s", "--sweep-span=0s": "--sweep-span: 0s",
		"--warmup=-1s": "--warmup: -1s", "--sweep-warmup=-1s": "--sweep-warmup: -1s", "--limit=0s": "--limit: 0s", "--rates=100,0": "--rates: 0, must be", "--rates=NaN": "--rates: NaN"} {
		if _, err := parsed[peersCmd](t, flag, "--symphony=/nowhere").config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s in it", flag, err, want)
		}
	}
}
