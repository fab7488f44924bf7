package fakeverbs_test

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/rdma/verbstest"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestConformance: two hosts, one device with itself, LIDs, and work that is
// done by timers.
func TestConformance(t *testing.T) {
	cases := []struct {
		name  string
		c     fakeverbs.Config
		hosts [2]string
	}{
		{"two hosts", fakeverbs.Config{}, [2]string{"a", "b"}},
		{"one device", fakeverbs.Config{}, [2]string{"a", "a"}},
		{"InfiniBand", fakeverbs.Config{InfiniBand: true}, [2]string{"a", "b"}},
		{"delay", fakeverbs.Config{Delay: 100 * mono.Microsecond}, [2]string{"a", "b"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			verbstest.Run(t, func(t *testing.T) verbstest.Fixture {
				f := fakeverbs.New(c.c)
				return verbstest.Fixture{
					A: verbstest.Side{Verbs: f.Host(c.hosts[0]), Device: "fake0", Port: 1, GIDIndex: 1},
					B: verbstest.Side{Verbs: f.Host(c.hosts[1]), Device: "fake0", Port: 1, GIDIndex: 1},
					Leaks: func() error {
						if n := f.Open(); n != (fakeverbs.Counts{}) {
							return fmt.Errorf("%+v", n)
						}
						return nil
					},
				}
			})
		})
	}
}
