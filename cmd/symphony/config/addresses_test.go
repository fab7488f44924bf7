package config

import (
	"slices"
	"strings"
	"testing"
)

// One address or several, as a text, a list, a flag or a variable.
func TestAddresses(t *testing.T) {
	two := Addresses{"tcp:a:1", "tcp:b:2"}
	for _, c := range []struct {
		file  string
		flags []Set
		env   []string
		want  Addresses
	}{
		{"", nil, nil, Default().Control.Scheduler},
		{"control: {scheduler: \"tcp:a:1\"}\n", nil, nil, two[:1]},
		{"control: {scheduler: [\"tcp:a:1\", \"tcp:b:2\"]}\n", nil, nil, two},
		{"control: {scheduler: \"tcp:a:1, tcp:b:2\"}\n", nil, nil, two},
		{"control: {scheduler: \"tcp:c:3\"}\n", []Set{{"control.scheduler", "tcp:a:1,tcp:b:2"}}, nil, two},
		{"", nil, []string{"SYMPHONY_CONTROL__SCHEDULER=tcp:a:1,tcp:b:2"}, two},
	} {
		got, err := Load(write(t, "control: {ephemeral: true}\n"), c.flags, c.env)
		if c.file != "" {
			got, err = Load(write(t, c.file), c.flags, c.env)
		}
		if err != nil || !slices.Equal(got.Control.Scheduler, c.want) {
			t.Errorf("%q, %v, %v: %v, %v; want %v", c.file, c.flags, c.env, got.Control.Scheduler, err, c.want)
		}
	}
	for text, want := range map[string]string{"[]": "names 0 addresses, must be 1 to 64", "\"tcp:a:1,tcp:a:1\"": "is there twice", "\"tcp:a:1,udp:2\"": "is no address", "\",\"": "names 0 addresses, must be 1 to 64"} {
		if _, err := Load(write(t, "control: {ephemeral: true, scheduler: "+text+"}\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "control.scheduler: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
