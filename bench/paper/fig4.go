package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// fig4: the staggered execution.
func fig4(s *Session) error {
	symphony, err := SystemOf(Algorithm1)
	if err != nil {
		return err
	}
	t, picture, err := example(symphony.New, 64)
	if err != nil {
		return err
	}
	picture.Title = "Deferred scheduling, l(b) = b + 5, SLO 12, a request each 0.75, 3 GPUs"
	picture.From, picture.To = 0, mono.Time(45*mono.Millisecond)
	if err := s.PlotSized("fig4", plot.Size{W: 8, H: 2.6}, *picture); err != nil {
		return err
	}
	s.Setting("Algorithm 1 to the letter: exec is frontrun, only what cannot make it alone is dropped")
	s.Setting("no chance in it: R_i arrives at 0.75*(i-1); a time unit is 1 ms")
	all := t.settled(0, mono.Time(40*mono.Millisecond))
	var rows [][]string
	even := true
	for i, b := range all {
		rows = append(rows, []string{fmt.Sprint(i + 1), fmt.Sprint(b.GPU + 1), Number(millis(b.Start), 2), Number(millis(b.End), 2), fmt.Sprint(b.Size)})
		even = even && b.Size == 4 && (i == 0 || b.Start.Sub(all[i-1].Start) == 3*mono.Millisecond)
	}
	s.Claim(Claim{What: "the first batch", Paper: "R1 to R4 at 2.25", Ours: fmt.Sprintf("R1 to R%d at %.2f", all[0].Size, millis(all[0].Start)),
		Holds: all[0].Size == 4 && all[0].Start == mono.Time(2250*mono.Microsecond)})
	s.Claim(Claim{What: "staggered execution", Paper: "batches of 4, the GPUs in turn, kept up", Ours: sizesText(all), Holds: even && len(t.dropped) == 0})
	return s.Table("fig4", []string{"batch", "GPU", "start", "end", "size"}, rows)
}

func millis(t mono.Time) float64 { return mono.Dur(t).Millis() }

func sizesText(batches []plot.Batch) string {
	text := "sizes"
	for _, b := range batches {
		text += fmt.Sprintf(" %d", b.Size)
	}
	return text
}
