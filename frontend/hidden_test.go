package frontend

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A frontend whose address only its own host knows, while the scheduler is on another,
// says so once; where others can be expected to reach it, or all are on one host, it does
// not.
func TestHiddenAddressIsSaid(t *testing.T) {
	for _, k := range []struct {
		name, address, local, remote string
		said                         bool
	}{
		{"loopback, the scheduler elsewhere", "tcp:127.0.0.1:4000", "10.0.0.7", "10.0.0.1", true},
		{"loopback by IPv6", "tcp:[::1]:4000", "10.0.0.7", "10.0.0.1", true},
		{"localhost", "tcp:localhost:4000", "fd00::7", "fd00::1", true},
		{"an address of the host", "tcp:10.0.0.7:4000", "10.0.0.7", "10.0.0.1", false},
		{"a name", "tcp:frontend-7.example:4000", "10.0.0.7", "10.0.0.1", false},
		{"all on one host", "tcp:127.0.0.1:4000", "127.0.0.1", "127.0.0.1", false},
		{"all on one host by IPv6", "tcp:[::1]:4000", "::1", "::1", false},
		{"links without hosts", "inproc:f", "", "", false},
	} {
		var log bytes.Buffer
		c := alone(t, func(o *Options) { o.Logger = zerolog.New(&log) })
		for range 3 { // links come and go
			l := &fakeLink{local: k.local, remote: k.remote}
			c.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 1, Address: k.address})
			c.lose(l)
		}
		c.Close()
		want := 0
		if k.said {
			want = 1
		}
		if n := strings.Count(log.String(), "cannot reach this address"); n != want {
			t.Errorf("%s: said %d times, want %d:\n%s", k.name, n, want, log.String())
		}
		if k.said && (!strings.Contains(log.String(), k.address) || !strings.Contains(log.String(), "frontend.advertise")) {
			t.Errorf("%s: neither the address nor what to set:\n%s", k.name, log.String())
		}
	}
}
