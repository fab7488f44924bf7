package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// rewriteFlag: go test ./scheduler/control/plan -run Story -rewrite
func rewriteFlag() bool { return flag.Lookup("rewrite").Value.String() == "true" }

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the transcripts in testdata anew")
	flag.Parse()
	os.Exit(m.Run())
}

const gib = 1 << 30

// story is a roll-out told step by step: each takes a second, the oldest ends first.
type story struct {
	*earth
	t    *testing.T
	text strings.Builder
}

// newStory has GPUs of 16 GiB, two a host, that are all free, and models of 1 GiB that need a
// tenth of a GPU and have a profile.
func newStory(t *testing.T, about string, gpus, models int) *story {
	s := &story{t: t}
	s.earth = &earth{fatal: t.Fatalf, limits: Limits{Loads: 6, LoadsHost: 2, Tries: 2}}
	s.tell = func(format string, args ...any) {
		fmt.Fprintf(&s.text, "%5s  %s\n", mono.Dur(s.now)/mono.Millisecond*mono.Millisecond, fmt.Sprintf(format, args...))
	}
	for _, line := range strings.Split(about, "\n") {
		fmt.Fprintln(&s.text, strings.TrimSpace(line))
	}
	for i := range gpus {
		s.devices = append(s.devices, &device{name: fmt.Sprintf("h%d/x/%d", i/2, i%2), host: fmt.Sprint("h", i/2), deviceType: "x", memory: 16 * gib, resident: map[string]bool{}, loading: map[string]bool{}})
	}
	for i := range models {
		s.add(fmt.Sprintf("m%d/1", i))
	}
	return s
}

func (s *story) add(key string) *thing {
	t := &thing{key: key, static: gib, dynamic: gib / 2, needs: map[string]float64{"x": 0.1}, measured: map[string]bool{"x": true}, failed: map[string]int{}}
	s.things = append(s.things, t)
	return t
}

// subCluster makes one of some models, by number.
func subCluster(name string, gpus int, models ...int) SubCluster {
	s := SubCluster{Name: name, DeviceType: "x", GPUs: gpus}
	for _, i := range models {
		s.Models = append(s.Models, fmt.Sprintf("m%d/1", i))
	}
	return s
}

// already puts the world where a plan wants it, without a word.
func (s *story) already(p Plan) {
	s.plan = p
	at := 0
	for _, c := range p.SubClusters {
		for _, key := range c.Models {
			s.thing(key).routed = c.Name
		}
		for range c.GPUs {
			d := s.devices[at]
			at++
			d.state, d.in = Serving, c.Name
			for _, key := range c.Models {
				d.resident[key] = true
			}
		}
	}
}

func (s *story) line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// aim makes p the target.
func (s *story) aim(p Plan) {
	s.plan = p
	d, err := Compare(p, s.facts(), s.limits)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range d.lines() {
		s.line("       diff: %s", l)
	}
	if s.rollout == nil {
		tell := s.tell
		s.tell = nil
		s.begin()
		s.tell = tell
		return
	}
	if err := s.rollout.Overtake(p); err != nil {
		s.t.Fatal(err)
	}
}

// run lets n steps end, or all.
func (s *story) run(n int) {
	for i := 0; n <= 0 || i < n; i++ {
		s.next()
		if s.rollout.Phase() != Running && len(s.orders) == 0 {
			s.line("       it is %v", s.rollout.Phase())
			for _, p := range s.rollout.Problems() {
				s.line("       %v", p)
			}
			return
		}
		if len(s.orders) == 0 {
			s.now = max(s.now, s.rollout.Wake())
			continue
		}
		if i%3 == 2 {
			s.now = s.now.Add(mono.Second)
		}
		s.finish(s.orders[0], "")
	}
}

func (s *story) end(name string) {
	s.check()
	file := filepath.Join("testdata", name+".txt")
	if rewriteFlag() {
		if err := os.WriteFile(file, []byte(s.text.String()), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := s.text.String(); got != string(want) {
		s.t.Errorf("%s is another than told here (-rewrite takes it over):\n%s", file, got)
	}
}

func (s *story) wantPhase(want Phase) {
	if got := s.rollout.Phase(); got != want {
		s.t.Errorf("it is %v, want %v: %v", got, want, s.rollout.Problems())
	}
	if wrong := s.asPlanned(); (wrong == "") != (want == Done) {
		s.t.Errorf("%v, and %s", want, wrong)
	}
}

func upTo(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func TestStoryMoves(t *testing.T) {
	s := newStory(t, `Ten models move from a to b, and one GPU with them.
		6 GPUs: 4 in a, 2 in b. The models go first, as far as b has GPUs for them, then the GPU.
		`, 6, 20)
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 4, upTo(0, 14)...), subCluster("b", 2, upTo(14, 20)...)}})
	s.aim(Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 3, 0, 1, 2, 3), subCluster("b", 3, upTo(4, 20)...)}})
	s.things[4].static, s.things[5].static = gib/2, gib/4 // 16 GiB hold no 16 models of 1 GiB and a batch
	for i := 6; i < 14; i++ {
		s.things[i].static = gib / 2
	}
	s.rollout = nil
	s.text.Reset()
	s.line("Ten models move from a to b, and one GPU with them.\n6 GPUs: 4 in a, 2 in b.\n")
	s.aim(s.plan)
	s.run(0)
	s.wantPhase(Done)
	s.end("moves")
}

func TestStoryVersion(t *testing.T) {
	s := newStory(t, `m0 gets a second version, of which there is no profile. A GPU is drained to measure it, since
		one is to spare. The first version is served until the second is.
		`, 3, 3)
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 3, 0, 1, 2)}})
	v2 := s.add("m0/2")
	v2.measured = map[string]bool{}
	p := Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 3, 1, 2)}, Successions: []Succession{{Old: "m0/1", New: "m0/2"}},
		Settings: []ModelSettings{{"m0/2", Settings{SLO: 25 * mono.Millisecond}}}}
	p.SubClusters[0].Models = append(p.SubClusters[0].Models, "m0/2")
	s.aim(p)
	s.run(0)
	s.wantPhase(Done)
	s.end("version")
}

func TestStoryFailedLoad(t *testing.T) {
	s := newStory(t, `m1's new version has a broken file; m0 moves to b meanwhile. m1/1 stays served, and m0's move is
		not held up.
		`, 4, 4)
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 2, 0, 1), subCluster("b", 2, 2, 3)}})
	s.add("m1/2").broken = "model.onnx: unexpected end of file"
	p := Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 2), subCluster("b", 2, 0, 2, 3)}, Successions: []Succession{{Old: "m1/1", New: "m1/2"}}}
	p.SubClusters[0].Models = []string{"m1/2"}
	s.aim(p)
	s.run(0)
	s.wantPhase(Marked)
	if s.thing("m1/1").routed != "a" || s.thing("m0/1").routed != "b" {
		t.Error("m1/1 is served nowhere, or m0/1 has not moved")
	}
	s.end("failed_load")
}

func TestStoryDeadGPU(t *testing.T) {
	s := newStory(t, `A GPU moves from a to b, and dies on the way. None is to spare: the roll-out ends short of one, and
		says so. One that comes later takes its place.
		`, 5, 4)
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 3, 0, 1), subCluster("b", 2, 2, 3)}})
	s.aim(Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 2, 0, 1), subCluster("b", 3, 2, 3)}})
	s.run(2)
	dead := s.device("h1/x/0")
	s.line("       %s dies", dead.name)
	dead.state, dead.in, dead.resident, dead.loading = Out, "", map[string]bool{}, map[string]bool{}
	s.orders = nil
	s.rollout.RemoveGPU(dead.name)
	s.run(0)
	s.wantPhase(Marked)
	s.line("       h3/x/0 comes")
	s.devices = append(s.devices, &device{name: "h3/x/0", host: "h3", deviceType: "x", memory: 16 * gib, resident: map[string]bool{}, loading: map[string]bool{}})
	s.learn(s.device("h3/x/0"))
	s.run(0)
	s.wantPhase(Done)
	s.end("dead_gpu")
}

func TestStoryOvertaken(t *testing.T) {
	s := newStory(t, `m0 is to move from a to b; before it is routed there, another plan has it stay and moves m1 instead.
		What was loaded of m0 is unloaded at the end.
		`, 4, 4)
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 2, 0, 1), subCluster("b", 2, 2, 3)}})
	s.aim(Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 2, 1), subCluster("b", 2, 0, 2, 3)}})
	s.run(1)
	s.line("       another plan")
	s.aim(Plan{Epoch: 3, SubClusters: []SubCluster{subCluster("a", 2, 0), subCluster("b", 2, 1, 2, 3)}})
	s.run(0)
	s.wantPhase(Done)
	s.end("overtaken")
}

// TestStoryShort: two sub-clusters of one GPU each swap models, with no GPU to spare for it.
func TestStoryShort(t *testing.T) {
	s := newStory(t, `a and b swap two models that need more than half a GPU each, on one GPU each. No order keeps both
		needs; the steps that do not say why.
		`, 2, 4)
	for i := range s.things {
		s.things[i].needs["x"] = 0.4
	}
	s.things[0].needs["x"], s.things[2].needs["x"] = 0.6, 0.6
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 1, 0, 1), subCluster("b", 1, 2, 3)}})
	s.aim(Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 1, 1, 2), subCluster("b", 1, 0, 3)}})
	s.run(0)
	s.wantPhase(Done)
	if s.shorts == 0 {
		t.Error("no step says what it costs")
	}
	s.end("short")
}

// TestStorySpare: the same with a free GPU, which is lent and given back.
func TestStorySpare(t *testing.T) {
	s := newStory(t, `a and b swap two models, as in short.txt, and one GPU is free. It is lent, so that both needs are kept.
		`, 3, 4)
	for i := range s.things {
		s.things[i].needs["x"] = 0.4
	}
	s.things[0].needs["x"], s.things[2].needs["x"] = 0.6, 0.6
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 1, 0, 1), subCluster("b", 1, 2, 3)}})
	s.aim(Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 1, 1, 2), subCluster("b", 1, 0, 3)}})
	s.run(0)
	s.wantPhase(Done)
	if s.shorts > 0 {
		t.Errorf("%d steps undercut a need although a GPU is free", s.shorts)
	}
	s.end("spare")
}

// TestStoryDetour: two full sub-clusters swap models over a third.
func TestStoryDetour(t *testing.T) {
	s := newStory(t, `a and b swap two models, and their GPUs have room for none more. One goes over c.
		`, 3, 5)
	for _, m := range s.things[:4] {
		m.static = 7 * gib
	}
	s.already(Plan{SubClusters: []SubCluster{subCluster("a", 1, 0, 1), subCluster("b", 1, 2, 3), subCluster("c", 1, 4)}})
	s.aim(Plan{Epoch: 2, SubClusters: []SubCluster{subCluster("a", 1, 1, 2), subCluster("b", 1, 0, 3), subCluster("c", 1, 4)}})
	s.run(0)
	s.wantPhase(Done)
	s.end("detour")
}

// TestStoryFirstPlan: what was never planned is taken over by a plan.
func TestStoryFirstPlan(t *testing.T) {
	for gpus, name := range map[int]string{4: "first_plan", 1: "first_plan_one"} {
		s := newStory(t, map[int]string{
			4: "Four GPUs that nobody planned serve four models. A plan makes two sub-clusters of them: the GPUs have\nall models, so nothing is loaded.\n",
			1: "One GPU that nobody planned becomes a sub-cluster. It is the last of the old one, so its models wait while\nit changes: the step says so.\n"}[gpus], gpus, 4)
		s.already(Plan{SubClusters: []SubCluster{{Name: Unplanned("x"), DeviceType: "x", GPUs: gpus, Models: []string{"m0/1", "m1/1", "m2/1", "m3/1"}}}})
		p := Plan{Epoch: 1, SubClusters: []SubCluster{subCluster("a", 1, 0, 1, 2, 3)}}
		if gpus == 4 {
			p.SubClusters = []SubCluster{subCluster("a", 2, 0, 1), subCluster("b", 2, 2, 3)}
		}
		s.aim(p)
		s.run(0)
		s.wantPhase(Done)
		if want := map[int]int{4: 0, 1: 1}[gpus]; s.shorts != want {
			t.Errorf("%d GPUs: %d steps undercut a need, want %d", gpus, s.shorts, want)
		}
		s.end(name)
	}
}
