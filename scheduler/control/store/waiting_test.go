package store

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Whoever asks to be told why there is no etcd yet has it waited for whatever that is: also for one
// that comes and is of a newer program, until it is put right.
func TestWaiting(t *testing.T) {
	t.Parallel()
	near, _ := open(t, Config{Ephemeral: true, Listen: "127.0.0.1:0", Prefix: "/other/"})
	key := PrefixDefault + strings.TrimPrefix(near.schemaKey(), "/other/")
	if _, err := near.client.Put(limited(t), key, `{"version":99}`); err != nil {
		t.Fatal(err)
	}
	net := newProxy(t, strings.TrimPrefix(near.Endpoint(), "http://"))
	net.set(false, true)
	var mu sync.Mutex
	var told []error
	hears := func(want string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(told) > 0 && strings.Contains(told[len(told)-1].Error(), want)
		}
	}
	metrics, log, opened := prometheus.NewRegistry(), &logged{}, make(chan *Store, 1)
	go func() {
		s, err := Open(limited(t), Config{Endpoints: []string{near.Endpoint()}, Timeout: time.Second, Metrics: metrics, Logger: logger(log), dial: net.dial, Waiting: func(why error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, why)
		}})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	until(t, "it is told that nobody answers", hears("start etcd, or correct control.endpoints"))
	if away, _ := gauges(t, metrics); away != 1 {
		t.Errorf("away %v", away)
	}
	net.set(false, false)
	until(t, "it is told of the newer program", hears("schema version 99"))
	if _, err := near.client.Delete(limited(t), key); err != nil {
		t.Fatal(err)
	}
	s := <-opened
	if s == nil {
		return
	}
	defer s.Close()
	if away, _ := gauges(t, metrics); away != 0 || log.count(`etcd is there"`) != 1 || log.count("waiting for it") != 1 {
		t.Errorf("away %v", away)
	}
	mu.Lock()
	defer mu.Unlock()
	var away *AwayError
	if len(told) != 2 || !errors.As(told[0], &away) {
		t.Errorf("told %v", told)
	}
}
