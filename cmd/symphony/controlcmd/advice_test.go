package controlcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

func TestAdvice(t *testing.T) {
	w := newWorld(t)
	out, _, err := w.run("advice", "--parts")
	for _, want := range []string{"DEVICE TYPE", "emulated", "drain", "2 replicas get nothing new", "get nothing new: gpu-4 gpu-5", "may be removed: gpu-5 gpu-4", "s1: 4 GPUs, 1.50 needed"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v; no %q in\n%s", err, want, out)
		}
	}
	var a api.Advice
	if out, _, err = w.run("advice", "--json"); err != nil || json.Unmarshal([]byte(out), &a) != nil || len(a.Groups) != 1 || a.Groups[0].Size != 4 || a.Scaler != "kubernetes" {
		t.Errorf("%v\n%s", err, out)
	}
	w.SetAway(&api.Error{Kind: api.KindAway, Msg: "no controller leads at the moment"})
	if _, _, err = w.run("advice"); err == nil || !strings.Contains(err.Error(), "no controller leads") {
		t.Error(err)
	}
}
