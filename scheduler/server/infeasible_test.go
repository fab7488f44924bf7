package server

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// What can never be in time is said once, counted while it is so, and said when it is not so any more: by the model's
// own time, and by that together with the way there and back.
func TestInfeasibleModels(t *testing.T) {
	var log bytes.Buffer // written by this test's looks alone
	s, n := newServer(t, func(c *Config) { c.Margin = 2 * mono.Millisecond })
	backendPeer(t, n, "b", 1, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = zerolog.New(&log)
	at := mono.Now().Add(60 * mono.Second)
	m := &s.models[0]
	look := func(slo, one mono.Dur) (int, string) {
		with := *m.spec
		with.SLO, with.Profile = slo, catalog.Profile{Beta: one}
		m.spec = &with
		at = at.Add(infeasibleEvery)
		log.Reset()
		s.lookForInfeasible(at)
		return m.pool.infeasible, log.String()
	}
	for _, c := range []struct {
		slo, one mono.Dur
		count    int
		says     string
	}{
		{100 * mono.Millisecond, 10 * mono.Millisecond, 0, ""},
		{20 * mono.Millisecond, 51 * mono.Millisecond, 1, "one item takes 51ms, more than its SLO of 20ms"},
		{20 * mono.Millisecond, 51 * mono.Millisecond, 1, ""},
		{100 * mono.Millisecond, 51 * mono.Millisecond, 0, "requests can be in time again"},
		{52 * mono.Millisecond, 51 * mono.Millisecond, 1, "and its way there and back"},
		{53300 * mono.Microsecond, 51 * mono.Millisecond, 1, ""}, // by a hair: it may be so again at the next look
		{60 * mono.Millisecond, 51 * mono.Millisecond, 0, "again"},
	} {
		count, said := look(c.slo, c.one)
		if count != c.count || (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%v of %v: %d models, %q; want %d, %q", c.one, c.slo, count, said, c.count, c.says)
		}
	}
}
