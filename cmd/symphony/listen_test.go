package main

import (
	"net"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A port that is taken is said with the flag that sets another.
func TestPortInUseHints(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().String()
	quiet := []string{"--log=error", "--set=rdma.mode=never", "--set=tcp.kernel_rtt=never"}
	for _, c := range []struct {
		name, want string
		run        func() error
	}{
		{"serve", "--set scheduler.listen=inproc:scheduler,tcp:127.0.0.1:9001 sets another address",
			parsed[serveCmd](t, append(quiet, "--set=scheduler.listen=inproc:scheduler,tcp:"+at)...).Run},
		{"scheduler", "--listen sets another address", parsed[schedulerCmd](t, append(quiet, "--listen=tcp:"+at)...).Run},
		{"scheduler's metrics", "--metrics sets another address", parsed[schedulerCmd](t, append(quiet, "--listen=tcp:127.0.0.1:0", "--metrics="+at)...).Run},
		{"frontend's metrics", "--metrics sets another address", parsed[frontendCmd](t, append(quiet, "--listen=tcp:127.0.0.1:0", "--http=127.0.0.1:0", "--metrics="+at)...).Run},
		{"frontend's admin calls", "--set frontend.admin=HOST:PORT sets another address",
			parsed[frontendCmd](t, append(quiet, "--listen=tcp:127.0.0.1:0", "--http=127.0.0.1:0", "--set=frontend.admin="+at)...).Run},
		{"frontend", "--listen sets another address", parsed[frontendCmd](t, append(quiet, "--listen=tcp:"+at)...).Run},
	} {
		want := "address already in use; is another server running there? " + c.want
		if err := c.run(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want one that ends in %q", c.name, err, want)
		}
	}
}

// parsed is a command with these flags.
func parsed[C any](t *testing.T, flags ...string) (c C) {
	t.Helper()
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return c
}
