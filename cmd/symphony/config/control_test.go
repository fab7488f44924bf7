package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The control plane's state is configured by file, flags and environment; the password may
// come from a file, and is printed nowhere.
func TestControl(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(write(t, "control: {endpoints: [\"https://a:2379\", \"https://b:2379\"], ca: ca.pem, cert: me.pem, key: me.key, user: u, prefix: /east/, lease: 20s}\n"),
		[]Set{{"control.password_file", secret}}, nil)
	if err != nil || !c.Control.Configured() {
		t.Fatal(err)
	}
	s, err := c.Control.Store()
	want := store.Config{Endpoints: []string{"https://a:2379", "https://b:2379"}, CA: "ca.pem", Cert: "me.pem", Key: "me.key", User: "u", Password: "hush", Prefix: "/east/", LeaseTTL: (20 * mono.Second).Std()}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v", s, err)
	}
	if c, err = Load("", []Set{{"control.endpoints", "https://a:1"}, {"control.user", "u"}}, []string{"SYMPHONY_CONTROL__PASSWORD=hush"}); err != nil || c.Control.Password != "hush" {
		t.Errorf("%v", err)
	}
	if text := fmt.Sprintf("%+v %#v %v", c, c, c.Control); strings.Contains(text, "hush") {
		t.Error(text)
	}
	if c, err = Load("", []Set{{"control.ephemeral", "true"}}, nil); err != nil || !c.Control.Ephemeral {
		t.Errorf("%+v, %v", c.Control, err)
	}
	c.Control.PasswordFile = filepath.Join(t.TempDir(), "none")
	if _, err := c.Control.Store(); err == nil || !strings.Contains(err.Error(), "control.password_file") {
		t.Errorf("%v", err)
	}
	if Default().Control.Configured() {
		t.Error("a control plane by default")
	}
}

// What does not go together is said with the other errors.
func TestControlIsChecked(t *testing.T) {
	_, err := Load(write(t, `
control: {data: /var/lib/symphony, endpoints: ["http://a:1"], listen: "0.0.0.0:2379", cert: c.pem, password: p, password_file: f}
log: {level: loud}
`), nil, nil)
	for _, want := range []string{"log.level", "control: data, ephemeral and endpoints exclude each other", "control: listen is for the etcd in this process", "control: listen: \"0.0.0.0:2379\" is no loopback",
		"control: cert and key belong together", "control: user and password belong together", "control.password: is there beside password_file", "which it would not use: write https", "configuration: 8 errors:\n"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err = Load(write(t, "control: {http: \"127.0.0.1:1\"}\n"), nil, nil); err != nil { // serve keeps it in memory then
		t.Errorf("%v", err)
	}
	_, err = Load(write(t, "control: {ephemeral: true, http: x, moves: 2, objective: luck, sub_clusters: 300}\n"), nil, nil)
	for _, want := range []string{"control.http", "control.moves", "control.objective", "control.sub_clusters"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err = Load(write(t, "control: {ephemeral: true, lease: 1s, endpoint: x}\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "control: lease: 1s") || !strings.Contains(err.Error(), "the nearest is control.endpoints") {
		t.Errorf("%v", err)
	}
}
