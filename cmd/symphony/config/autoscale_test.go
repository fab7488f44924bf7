package config

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestAutoscale(t *testing.T) {
	c, err := Load(write(t, `
control:
  ephemeral: true
  keda: 0.0.0.0:9095
  autoscale:
    scaler: kubernetes
    max: 40
    min: 2
    lead: 7m
    zone: UTC
    schedule: ["10 mon-fri 08:30-18:00", "4 sat,sun 10:00-12:00"]
    types: [{device_type: a100, max: 8, unit: 4, schedule: ["6 daily 09:00-10:00"]}]
`), nil, []string{"SYMPHONY_CONTROL__AUTOSCALE__COOL_DOWN=20m"})
	if err != nil {
		t.Fatal(err)
	}
	a := &c.Control.Autoscale
	if x := a.Of("t4"); x.Min != 2 || x.Max != 40 || x.PerUnit != 0 || len(x.Hints) != 2 || x.Lead != 420*mono.Second || x.CoolDown != 1200*mono.Second || x.Advises {
		t.Errorf("%+v", x)
	}
	if x := a.Of("a100"); x.Min != 2 || x.Max != 8 || x.PerUnit != 4 || len(x.Hints) != 1 || x.Hints[0].GPUs != 6 {
		t.Errorf("%+v", x)
	}
	d := Default().Control.Autoscale
	if x := d.Of("t4"); !x.Advises || x.Max != 0 {
		t.Errorf("by default somebody acts: %+v", x)
	}
}

func TestAutoscaleIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"{scaler: nomad}":          "control.autoscale.scaler: \"nomad\" is none of none, exec, kubernetes",
		"{scaler: exec, max: 4}":   "control.autoscale.command: names no command",
		"{command: [x]}":           "write scaler: exec",
		"{scaler: kubernetes}":     "control.autoscale.max: is 0, no limit",
		"{min: 5, max: 4}":         "control.autoscale.max: is 4, must be 0 (no limit) or 5",
		"{min: 0}":                 "control.autoscale.min",
		"{zone: Nowhere/None}":     "control.autoscale.zone",
		"{schedule: [\"10 mon\"]}": "control.autoscale.schedule: \"10 mon\": has not three words",
		"{bad_rate: 1}":            "control.autoscale.bad_rate",
		"{cool_down: 5s}":          "control.autoscale.cool_down",
		"{lead: 0}":                "control.autoscale.lead",
		"{unit: 8, max: 4}":        "control.autoscale.unit: is 8, more than max, 4",
		"{types: [{max: 4}]}":      "control.autoscale.types[0].device_type: names no device type",
		"{types: [{device_type: a, min: 9}], max: 4}":   "control.autoscale.types[0].max",
		"{types: [{device_type: a}, {device_type: a}]}": "is there twice",
		"{max: 4, schedule: [\"5 daily 01:00-02:00\"]}": "asks for more GPUs than max, 4",
		"{retry_max: 1s}": "control.autoscale.retry_max",
	} {
		_, err := Load(write(t, "control: {ephemeral: true, autoscale: "+text+"}\n"), nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, err := Load(write(t, "control: {ephemeral: true, keda: \"0.0.0.0:9095\"}\n"), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "control.keda: needs control.autoscale.scaler kubernetes") {
		t.Error(err)
	}
}
