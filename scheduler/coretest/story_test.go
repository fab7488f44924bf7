package coretest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// rewriteFlag: go test ./scheduler/coretest -run Figure -rewrite
func rewriteFlag() bool { return flag.Lookup("rewrite").Value.String() == "true" }

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the transcripts in testdata anew")
	flag.Parse()
	os.Exit(m.Run())
}

// unit is the paper's unit of time in section 3.3.
const unit = mono.Second

// story is the example of section 3.3, told event by event.
type story struct {
	text    strings.Builder
	cluster *Cluster
	last    mono.Time // of the line before
	runs    []Run
	drops   []wire.RequestID
	quiet   batching.Candidate // candidate told last
}

// newStory: 3 GPUs, l(b) = b + 5, SLO 12, drop rule head.
func newStory(t *testing.T) *story {
	p, err := profile.Linear(unit, 5*unit, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{cluster: New(3, shard.Config{RequestsMax: 64, BatchesMax: 16}), last: -1}
	s.cluster.Shard.AddModel(0, shard.ModelConfig{Config: batching.Config{Profile: p, SLO: 12 * unit, Policy: batching.PolicyHead, QueueMax: 64}})
	s.cluster.Obs = Observer{Dispatch: s.dispatched, Complete: s.completed, Drop: s.dropped, Candidate: s.candidate}
	return s
}

// at formats an instant in units; one that lies a nanosecond behind a round
// one says so.
func at(t mono.Time) string {
	s := fmt.Sprintf("%.2f", float64(t)/float64(unit))
	if t%mono.Time(unit/100) == 1 {
		s += "+"
	}
	return s
}

func (s *story) line(now mono.Time, format string, args ...any) {
	head := strings.Repeat(" ", 11)
	if now != s.last {
		head = fmt.Sprintf("t = %-7s", at(now))
	}
	s.last = now
	fmt.Fprintf(&s.text, "%s%s\n", head, fmt.Sprintf(format, args...))
}

// letter names a batch as the figures do.
func (s *story) letter(id wire.BatchID) string {
	i := slices.IndexFunc(s.runs, func(r Run) bool { return r.Batch == id })
	return string(rune('A' + i))
}

func (s *story) candidate(now mono.Time, c shard.Candidate) {
	k := c.Candidate
	if k == s.quiet {
		return
	}
	s.quiet = k
	if k.Size == 0 {
		s.line(now, "no candidate")
		return
	}
	s.line(now, "candidate of %d: exec %s, latest %s", k.Size, at(k.Exec), at(k.Latest))
}

func (s *story) dispatched(now mono.Time, r Run) {
	s.runs = append(s.runs, r)
	first, last := r.Requests[0].ID, r.Requests[len(r.Requests)-1].ID
	names := fmt.Sprintf("R%d to R%d", first, last)
	if len(r.Requests) == 1 {
		names = fmt.Sprintf("R%d alone", first)
	}
	if left := s.cluster.Shard.Queued(0); left > 0 {
		names += fmt.Sprintf(" of %d waiting", len(r.Requests)+left)
	}
	s.line(now, "GPU %d runs batch %s = %s, from %s to %s", r.GPU+1, s.letter(r.Batch), names, at(r.Start), at(r.End))
}

func (s *story) completed(r Run) { s.line(r.End, "GPU %d ends batch %s", r.GPU+1, s.letter(r.Batch)) }

func (s *story) dropped(now mono.Time, d batching.Drop) {
	s.drops = append(s.drops, d.Request.ID)
	s.line(now, "R%d is dropped (%s): due %s, alone it takes 6.00", d.Request.ID, d.Reason, at(d.Request.Deadline))
}

// play lets R1..Rn arrive every 0.75 but those skipped, and the rest end.
func (s *story) play(n int, skip func(i int) bool, before func(i int)) {
	for i := 1; i <= n; i++ {
		if skip(i) {
			continue
		}
		when := mono.Time(i-1) * mono.Time(3*unit/4)
		s.cluster.AdvanceTo(when)
		s.line(when, "R%d arrives, due %s", i, at(when.Add(12*unit)))
		before(i)
		s.cluster.Submit(0, batching.Request{ID: wire.RequestID(i), Arrival: when, Deadline: when.Add(12 * unit)})
		s.cluster.Settle()
	}
	s.cluster.Advance(s.cluster.Now.Add(24 * unit))
}

// strips draws each GPU's time: a column is 0.75, a digit the batch's size.
func (s *story) strips() string {
	var b strings.Builder
	for gpu := range wire.GPUID(3) {
		row := []byte(strings.Repeat(".", 60))
		for _, r := range s.runs {
			for c := range row {
				middle := mono.Time(c)*mono.Time(3*unit/4) + mono.Time(3*unit/8)
				if r.GPU == gpu && r.Start <= middle && middle < r.End {
					row[c] = byte('0' + len(r.Requests))
				}
			}
		}
		fmt.Fprintf(&b, "GPU %d  %s\n", gpu+1, row)
	}
	return b.String()
}

// tell compares with testdata/name, or writes it.
func (s *story) tell(t *testing.T, name, header string) {
	t.Helper()
	got := header + "\nA column is 0.75; a digit is the size of the batch that runs, a dot an idle GPU.\n\"21.75+\" is a nanosecond after 21.75.\n" + s.strips() + "\n" + s.text.String()
	path := filepath.Join("testdata", name)
	if rewriteFlag() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (if that is meant: go test -run Figure -rewrite):\n%s", name, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is\n\t%s\nwant\n\t%s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
