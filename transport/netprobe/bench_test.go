//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package netprobe

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pair is a connection over the loopback device whose far end sends all back.
func pair(b *testing.B) *net.TCPConn {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		near.Close()
		far.Close()
	})
	go func() {
		buf := make([]byte, 64)
		for {
			if _, err := io.ReadFull(far, buf); err != nil {
				return
			}
			far.Write(buf)
		}
	}()
	return near.(*net.TCPConn)
}

// rounds is the time of one round trip of n.
func rounds(b *testing.B, conn net.Conn, n int) float64 {
	var buf [64]byte
	start := time.Now()
	for range n {
		conn.Write(buf[:])
		if _, err := io.ReadFull(conn, buf[:]); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

// BenchmarkPingPong sets side by side, in short turns, a round trip without the
// probe, one of a connection that nobody watches while others may be (all of
// the host's connections pay that), and a watched one. Medians of the turns.
func BenchmarkPingPong(b *testing.B) {
	conn := pair(b)
	const turn = 500
	var off, beside, watched []float64
	for range b.N {
		rounds(b, conn, turn) // each change is let settle first
		off = append(off, rounds(b, conn, turn))
		p, err := Open(Options{})
		if err != nil {
			b.Skip(err)
		}
		rounds(b, conn, turn)
		beside = append(beside, rounds(b, conn, turn))
		w, err := p.Watch(conn)
		if err != nil {
			b.Fatal(err)
		}
		rounds(b, conn, turn)
		watched = append(watched, rounds(b, conn, turn))
		w.Close()
		p.Close()
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(off), "ns/off")
	b.ReportMetric(median(beside), "ns/beside")
	b.ReportMetric(median(watched), "ns/watched")
	b.ReportMetric(median(beside)/median(off), "beside/off")
	b.ReportMetric(median(watched)/median(off), "watched/off")
}

// BenchmarkProgram is what one received segment costs in the kernel, by its
// own account (which adds two readings of the clock to every run).
func BenchmarkProgram(b *testing.B) {
	for _, watch := range []bool{false, true} {
		name := map[bool]string{false: "beside", true: "watched"}[watch]
		b.Run(name, func(b *testing.B) {
			conn := pair(b)
			p, err := Open(Options{})
			if err != nil {
				b.Skip(err)
			}
			defer p.Close()
			stop, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
			if err != nil {
				b.Skip(err)
			}
			defer stop.Close()
			if watch {
				if _, err := p.Watch(conn); err != nil {
					b.Fatal(err)
				}
			}
			rounds(b, conn, b.N)
			st, err := p.program.Stats()
			if err != nil || st.RunCount == 0 {
				b.Fatal(err, st)
			}
			b.ReportMetric(float64(st.Runtime.Nanoseconds())/float64(st.RunCount), "ns/segment")
		})
	}
}

// BenchmarkStats is a reading of one connection's counters; Stats does it ten
// times a second at most.
func BenchmarkStats(b *testing.B) {
	conn := pair(b)
	p, err := Open(Options{})
	if err != nil {
		b.Skip(err)
	}
	defer p.Close()
	w, err := p.Watch(conn)
	if err != nil {
		b.Fatal(err)
	}
	rounds(b, conn, 1000)
	b.ReportAllocs()
	for b.Loop() {
		w.read = 0
		w.Stats()
	}
}
