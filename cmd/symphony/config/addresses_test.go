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

// A frontend's may be groups, with + between the addresses of one; nobody else's.
func TestGroups(t *testing.T) {
	for text, want := range map[string]Addresses{
		"\"tcp:a:1+tcp:b:2\"":                {"tcp:a:1+tcp:b:2"},
		"\"tcp:a:1+tcp:b:2,tcp:c:3\"":        {"tcp:a:1+tcp:b:2", "tcp:c:3"},
		"[tcp:a:1+tcp:b:2, tcp:c:3+tcp:d:4]": {"tcp:a:1+tcp:b:2", "tcp:c:3+tcp:d:4"},
	} {
		got, err := Load(write(t, "frontend: {scheduler: "+text+"}\n"), nil, nil)
		if err != nil || !slices.Equal(got.Frontend.Scheduler, want) {
			t.Errorf("%s: %v, %v; want %v", text, got.Frontend.Scheduler, err, want)
		}
	}
	for text, want := range map[string]string{
		"\"tcp:a:1+\"":                       "frontend.scheduler: \"tcp:a:1+\" lacks an address beside +: write A+B",
		"\"+tcp:a:1\"":                       "lacks an address beside +",
		"\"tcp:a:1+udp:2\"":                  "\"udp:2\" is no address",
		"\"tcp:a:1+tcp:b:2,tcp:b:2\"":        "\"tcp:b:2\" is there twice",
		"[tcp:a:1+tcp:b:2, tcp:b:2+tcp:c:3]": "\"tcp:b:2\" is there twice",
	} {
		if _, err := Load(write(t, "frontend: {scheduler: "+text+"}\n"), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
