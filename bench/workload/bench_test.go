package workload

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// BenchmarkMixNext: an arrival among 37 models.
func BenchmarkMixNext(b *testing.B) {
	profile, err := ParseProfile("diurnal:period=60s,depth=0.5*burst:period=7s,length=1s,height=3")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		s    Stream
	}{
		{"poisson", Stream{Process: Poisson}},
		{"poisson-profile", Stream{Process: Poisson, Profile: profile}},
		{"gamma0.05", Stream{Process: Gamma, Shape: 0.05}},
		{"gamma0.5", Stream{Process: Gamma, Shape: 0.5}},
		{"gamma0.5-profile", Stream{Process: Gamma, Shape: 0.5, Profile: profile}},
		{"constant", Stream{Process: Constant}},
	} {
		b.Run(c.name, func(b *testing.B) {
			streams := make([]Stream, 37)
			for i := range streams {
				streams[i] = c.s
				streams[i].Rate = float64(100 + i)
			}
			m, err := NewMix(streams, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var last mono.Time
			for b.Loop() {
				at, _, _ := m.Next()
				if at < last {
					b.Fatalf("%s after %s", at, last)
				}
				last = at
			}
		})
	}
}
