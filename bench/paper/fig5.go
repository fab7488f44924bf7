package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
)

// fig5: R13, R14 and R15 do not come. Both begin in the staggered pattern; from
// R16 on one is eager.
func fig5(s *Session) error {
	eager, a, err := exampleThen(Eager)
	if err != nil {
		return err
	}
	deferred, b, err := exampleThen(Algorithm1)
	if err != nil {
		return err
	}
	a.Title, b.Title = "(a) Eager batch scheduling", "(b) Deferred batch scheduling"
	for _, p := range []*plot.Timeline{a, b} {
		p.From, p.To = 0, mono.Time(48*mono.Millisecond)
	}
	if err := s.PlotSized("fig5", plot.Size{W: 8, H: 5}, plot.Grid{Panels: []plot.Picture{*a, *b}}); err != nil {
		return err
	}
	s.Setting("Algorithm 1 to the letter, as in figure 4")
	s.Setting("no chance in it: R_i arrives at 0.75*(i-1), R13 to R15 do not; a time unit is 1 ms")
	first := eager.settled(mono.Time(11*mono.Millisecond), mono.Time(12*mono.Millisecond))
	s.Claim(Claim{What: "eager: the first batch after the gap", Paper: "R16 alone at 11.25", Ours: startsText(first), Holds: len(first) == 1 && first[0].Size == 1})
	s.Claim(Claim{What: "eager drops", Paper: "R35, R37, R38 and so on", Ours: numbersText(eager.dropped), Holds: len(eager.dropped) >= 3 && slices.Equal(eager.dropped[:3], []int{35, 37, 38})})
	after := deferred.settled(mono.Time(12*mono.Millisecond), mono.Time(40*mono.Millisecond))
	full := !slices.ContainsFunc(after[1:], func(b plot.Batch) bool { return b.Size < 4 })
	s.Claim(Claim{What: "deferred: batches after the gap", Paper: "back to 4, no drops", Ours: sizesText(after) + "; dropped: " + numbersText(deferred.dropped), Holds: full && len(deferred.dropped) == 0})
	var rows [][]string
	names := []string{"eager", "deferred"}
	for i, t := range []*trace{eager, deferred} {
		for _, b := range t.settled(0, mono.Time(48*mono.Millisecond)) {
			rows = append(rows, []string{names[i], fmt.Sprint(b.GPU + 1), Number(millis(b.Start), 2), Number(millis(b.End), 2), fmt.Sprint(b.Size)})
		}
	}
	return s.Table("fig5", []string{"scheduler", "GPU", "start", "end", "size"}, rows)
}

// exampleThen runs the example without R13 to R15, under another system from
// R16 on.
func exampleThen(system string) (*trace, *plot.Timeline, error) {
	before, err := SystemOf(Algorithm1)
	if err != nil {
		return nil, nil, err
	}
	after, err := SystemOf(system)
	if err != nil {
		return nil, nil, err
	}
	change := mono.Time(15 * exampleGap)
	both := func(c policy.Config) policy.Scheduler {
		return &relay{at: change, first: before.New(c), second: after.New(c)}
	}
	return example(both, 64, 13, 14, 15)
}

func startsText(batches []plot.Batch) string {
	var parts []string
	for _, b := range batches {
		parts = append(parts, fmt.Sprintf("%d at %.2f", b.Size, millis(b.Start)))
	}
	return strings.Join(parts, ", ")
}

func numbersText(numbers []int) string {
	if len(numbers) == 0 {
		return "none"
	}
	var parts []string
	for _, n := range numbers[:min(8, len(numbers))] {
		parts = append(parts, fmt.Sprintf("R%d", n))
	}
	if len(numbers) > 8 {
		parts = append(parts, fmt.Sprintf("and %d more", len(numbers)-8))
	}
	return strings.Join(parts, ", ")
}
