package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What does not go together is said, all of it, with what to do; what does, passes.
func TestCheck(t *testing.T) {
	for _, ok := range []Config{
		{Data: "d"}, {Ephemeral: true}, {Data: "d", Listen: "127.0.0.1:2379"}, {Ephemeral: true, Listen: "[::1]:0"}, {Endpoints: []string{"http://a:1", "http://b:1"}},
		{Endpoints: []string{"https://a:1"}, CA: "c", Cert: "c", Key: "k", User: "u", Password: "p", Prefix: "/a/b/", Timeout: time.Second, LeaseTTL: time.Minute},
	} {
		if err := ok.Check(); err != nil {
			t.Errorf("%+v: %v", ok, err)
		}
	}
	for _, c := range []struct {
		wrong Config
		want  []string
	}{
		{Config{}, []string{"nothing says where"}},
		{Config{Data: "d", Ephemeral: true}, []string{"exclude each other"}},
		{Config{Data: "d", Endpoints: []string{"http://a:1"}}, []string{"exclude each other"}},
		{Config{Listen: "127.0.0.1:1", Endpoints: []string{"http://a:1"}}, []string{"listen is for the etcd in this process"}},
		{Config{Data: "d", Listen: "0.0.0.0:1"}, []string{"no loopback"}},
		{Config{Data: "d", Listen: "nowhere"}, []string{"no loopback"}},
		{Config{Data: "d", Listen: "127.0.0.1:none"}, []string{"no loopback"}},
		{Config{Data: "d", CA: "c"}, []string{"are for endpoints"}},
		{Config{Data: "d", User: "u", Password: "p"}, []string{"are for endpoints"}},
		{Config{Endpoints: []string{"https://a:1"}, Cert: "c"}, []string{"cert and key belong together"}},
		{Config{Endpoints: []string{"https://a:1"}, User: "u"}, []string{"user and password belong together"}},
		{Config{Endpoints: []string{"http://a:1"}, CA: "c"}, []string{"which it would not use: write https"}},
		{Config{Endpoints: []string{"http://a:1", "https://b:1"}}, []string{"one or the other"}},
		{Config{Endpoints: []string{"http://a:1", "http://a:1"}}, []string{"there twice"}},
		{Config{Endpoints: []string{"a:1"}}, []string{`"a:1" is no address of an etcd`}},
		{Config{Endpoints: []string{"http://a"}}, []string{"is no address of an etcd"}},
		{Config{Endpoints: []string{"http://u:p@a:1"}}, []string{"is no address of an etcd"}},
		{Config{Ephemeral: true, Prefix: "symphony"}, []string{"prefix:"}},
		{Config{Ephemeral: true, Timeout: time.Hour, LeaseTTL: time.Millisecond}, []string{"timeout:", "lease:"}},
	} {
		err := c.wrong.Check()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: want %q: %v", c.wrong, want, err)
			}
		}
		if err != nil && len(strings.Split(err.Error(), "\n")) != len(c.want) {
			t.Errorf("%+v: more than %q:\n%v", c.wrong, c.want, err)
		}
	}
}

// A password is not printed, however a configuration is.
func TestSecret(t *testing.T) {
	c := Config{User: "u", Password: "hush"}
	text, err := json.Marshal(struct{ P Secret }{c.Password})
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q %v", c.Password, c.Password, c.Password), string(text)} {
		if strings.Contains(s, "hush") || err != nil {
			t.Errorf("%s, %v", s, err)
		}
	}
}
