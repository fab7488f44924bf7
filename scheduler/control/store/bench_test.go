package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// What the control plane's state costs a process that does nothing: with an etcd in it, one
// that leads, a registered backend and two watches. An iteration is 5 s: 60 s are
// -benchtime 12x.
func BenchmarkIdle(b *testing.B) {
	s, err := Open(b.Context(), Config{Data: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Register(schema.Backend{Name: "b"}); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Campaign(b.Context(), schema.Leader{Name: "me"}); err != nil {
		b.Fatal(err)
	}
	s.Models.Watch(b.Context(), 0)
	s.Backends.Watch(b.Context(), 0)
	time.Sleep(time.Second)
	before := processorTime(b)
	b.ResetTimer()
	for range b.N {
		time.Sleep(5 * time.Second)
	}
	b.StopTimer()
	b.ReportMetric(100*(processorTime(b)-before).Seconds()/b.Elapsed().Seconds(), "%cpu")
	b.ReportMetric(residentMB(b), "MB-RSS")
}

// A model is created: one transaction, on the disk.
func BenchmarkCreate(b *testing.B) {
	s, err := Open(b.Context(), Config{Data: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range b.N {
		m := model(fmt.Sprint(i % 5000))
		if i%5000 == i {
			_, err = s.Models.Create(b.Context(), m)
		} else {
			_, err = s.Models.Change(b.Context(), m.ID(), func(m *schema.Model) error { m.Settings.MaxBatch ^= 1; return nil })
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func residentMB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / 1e6
}
