package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Autoscale says how many GPUs the control plane asks for, and who brings them and takes them away.
type Autoscale struct {
	Scaler   string          `yaml:"scaler"`             // none: advice only; exec: command; kubernetes: who reads the advice acts (symphony-kube, KEDA)
	Command  []string        `yaml:"command,omitempty"`  // of exec: {size}, {gpus}, {device_type}, {remove} and others are replaced; also SYMPHONY_SCALE_SIZE, ...
	Limit    mono.Dur        `yaml:"limit"`              // of one run of the command
	Interval mono.Dur        `yaml:"interval"`           // an epoch: its highest need counts
	BadRate  float64         `yaml:"bad_rate"`           // bound on the share of bad requests
	CoolUp   mono.Dur        `yaml:"cool_up"`            // from any change to the next addition
	CoolDown mono.Dur        `yaml:"cool_down"`          // from any change to the next removal, and for how long GPUs must be to spare
	Lead     mono.Dur        `yaml:"lead"`               // that a GPU takes from the order until it serves
	Drain    mono.Dur        `yaml:"drain"`              // that a replica may take to end what it has, before its removal is called off
	RetryMax mono.Dur        `yaml:"retry_max"`          // between two tries of what does not come
	Zone     string          `yaml:"zone"`               // time zone of schedules, like Europe/Zurich; empty: this host's
	Min      int             `yaml:"min"`                // GPUs of a device type, at least
	Max      int             `yaml:"max"`                // GPUs of a device type, at most; 0: no limit, which only none takes
	Unit     int             `yaml:"unit"`               // GPUs of a replica; 0: as many as one was seen to have
	Schedule []string        `yaml:"schedule,omitempty"` // GPUs at least, at certain times: "10 mon-fri 08:30-18:00"
	Types    []AutoscaleType `yaml:"types,omitempty"`    // what is different for some device types
}

// AutoscaleType has what is different for a device type; 0 and empty: nothing.
type AutoscaleType struct {
	DeviceType string   `yaml:"device_type"`
	Min        int      `yaml:"min"`
	Max        int      `yaml:"max"`
	Unit       int      `yaml:"unit"`
	Schedule   []string `yaml:"schedule,omitempty"`
}

// Scalers there are.
const (
	ScalerNone       = "none"
	ScalerExec       = "exec"
	ScalerKubernetes = "kubernetes"
)

// defaultAutoscale is what holds where nothing is said.
func defaultAutoscale() Autoscale {
	return Autoscale{Scaler: ScalerNone, Limit: 60 * mono.Second, Interval: 10 * mono.Second, BadRate: 0.01, CoolUp: 60 * mono.Second, CoolDown: 600 * mono.Second,
		Lead: 300 * mono.Second, Drain: 600 * mono.Second, RetryMax: 3600 * mono.Second, Min: 1}
}

// of has the limits of a device type.
func (a *Autoscale) of(deviceType string) AutoscaleType {
	t := AutoscaleType{DeviceType: deviceType, Min: a.Min, Max: a.Max, Unit: a.Unit, Schedule: a.Schedule}
	i := slices.IndexFunc(a.Types, func(o AutoscaleType) bool { return o.DeviceType == deviceType })
	if i < 0 {
		return t
	}
	o := a.Types[i]
	for _, d := range []struct{ to, from *int }{{&t.Min, &o.Min}, {&t.Max, &o.Max}, {&t.Unit, &o.Unit}} {
		if *d.from != 0 {
			*d.to = *d.from
		}
	}
	if len(o.Schedule) > 0 {
		t.Schedule = o.Schedule
	}
	return t
}

// Of is what the core is told of a device type. The configuration is valid.
func (a *Autoscale) Of(deviceType string) scaling.Config {
	t := a.of(deviceType)
	c := scaling.Config{Min: t.Min, Max: t.Max, PerUnit: t.Unit, BadRate: a.BadRate, Interval: a.Interval, CoolUp: a.CoolUp, CoolDown: a.CoolDown, Lead: a.Lead,
		Drain: a.Drain, RetryMax: a.RetryMax, Advises: a.Scaler == ScalerNone, Absolute: a.Scaler == ScalerExec}
	for _, text := range t.Schedule {
		if h, err := scaling.ParseHint(text); err == nil {
			c.Hints = append(c.Hints, h)
		}
	}
	return c
}

// Location is the schedules' time zone.
func (a *Autoscale) Location() (*time.Location, error) {
	if a.Zone == "" {
		return time.Local, nil
	}
	return time.LoadLocation(a.Zone)
}

func (a *Autoscale) validate(r *report) {
	const at = "control.autoscale."
	const hour = 3600 * mono.Second
	r.oneOf(at+"scaler", a.Scaler, ScalerNone, ScalerExec, ScalerKubernetes)
	r.need(a.Scaler != ScalerExec || len(a.Command) > 0 && a.Command[0] != "", at+"command", "names no command, which scaler exec runs: write [/path/to/command, \"{device_type}\", \"{size}\"]")
	r.need(a.Scaler == ScalerExec || len(a.Command) == 0, at+"command", "is there, and the scaler is %s: write scaler: exec", a.Scaler)
	r.span(at+"limit", a.Limit, 100*mono.Millisecond, hour)
	r.span(at+"interval", a.Interval, mono.Second, hour)
	r.need(a.BadRate > 0 && a.BadRate < 1, at+"bad_rate", "is %g, must be above 0 and below 1", a.BadRate)
	r.span(at+"cool_up", a.CoolUp, mono.Second, 24*hour)
	r.span(at+"cool_down", a.CoolDown, a.Interval, 7*24*hour)
	r.span(at+"lead", a.Lead, mono.Second, 24*hour)
	r.span(at+"drain", a.Drain, mono.Second, 24*hour)
	r.span(at+"retry_max", a.RetryMax, a.Lead, 7*24*hour)
	if _, err := a.Location(); err != nil {
		r.need(false, at+"zone", "%v: write one like Europe/Zurich, or UTC", err)
	}
	a.validateType(r, at, a.of(""))
	for i, t := range a.Types {
		key := fmt.Sprintf("%stypes[%d].", at, i)
		r.need(t.DeviceType != "", key+"device_type", "names no device type")
		r.need(slices.IndexFunc(a.Types, func(o AutoscaleType) bool { return o.DeviceType == t.DeviceType }) == i, key+"device_type", "%q is there twice", t.DeviceType)
		a.validateType(r, key, a.of(t.DeviceType))
	}
}

// validateType checks the limits as they hold for a type.
func (a *Autoscale) validateType(r *report, at string, t AutoscaleType) {
	const most = 1 << 20
	r.between(at+"min", int64(t.Min), 1, most)
	r.need(t.Max == 0 || t.Max >= t.Min && t.Max <= most, at+"max", "is %d, must be 0 (no limit) or %d (min) to %d", t.Max, t.Min, most)
	r.need(t.Max > 0 || a.Scaler == ScalerNone, at+"max", "is 0, no limit, which scaler %s does not take: say how many GPUs there may be", a.Scaler)
	r.between(at+"unit", int64(t.Unit), 0, 1024)
	r.need(t.Max == 0 || t.Unit <= t.Max, at+"unit", "is %d, more than max, %d: no replica could be there", t.Unit, t.Max)
	for _, text := range t.Schedule {
		h, err := scaling.ParseHint(text)
		r.need(err == nil, at+"schedule", "%v", err)
		r.need(err != nil || t.Max == 0 || h.GPUs <= t.Max, at+"schedule", "%q asks for more GPUs than max, %d", text, t.Max)
	}
}
