package wire

import "testing"

func TestSplitTCP(t *testing.T) {
	for _, c := range []struct{ address, host, port, joined string }{
		{"tcp:10.0.0.7:4000", "10.0.0.7", "4000", "tcp:10.0.0.7:4000"},
		{"tcp:host.example:1", "host.example", "1", "tcp:host.example:1"},
		{"tcp:[fd00::7]:4000", "fd00::7", "4000", "tcp:[fd00::7]:4000"},
		{"tcp:[::]:4000", "::", "4000", "tcp:[::]:4000"},
		{"tcp::4000", "", "4000", "tcp::4000"},
	} {
		host, port, err := SplitTCP(c.address)
		if err != nil || host != c.host || port != c.port || JoinTCP(host, port) != c.joined {
			t.Errorf("%s: %q, %q, %v, joined %s", c.address, host, port, err, JoinTCP(host, port))
		}
	}
	for _, bad := range []string{"", "tcp:", "4000", "tcp:host", "tcp:host:", "tcp:[::1:4", "tcp:::1]:4", "tcp:fd00::7:4000", "inproc:f", "udp:h:1"} {
		if host, port, err := SplitTCP(bad); err == nil {
			t.Errorf("%q: %q, %q", bad, host, port)
		}
	}
}

func TestHosts(t *testing.T) {
	for host, want := range map[string][2]bool{ // loopback, unspecified
		"127.0.0.1": {true, false}, "127.9.9.9": {true, false}, "::1": {true, false}, "::ffff:127.0.0.1": {true, false}, "localhost": {true, false},
		"": {false, true}, "0.0.0.0": {false, true}, "::": {false, true}, "::ffff:0.0.0.0": {false, true},
		"10.0.0.1": {false, false}, "host.example": {false, false}, "fe80::1%eth0": {false, false},
	} {
		if got := [2]bool{Loopback(host), Unspecified(host)}; got != want {
			t.Errorf("%q: loopback, unspecified %v, want %v", host, got, want)
		}
	}
}
