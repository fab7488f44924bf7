package httpbench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// InterruptedText stands above the tables of a run that did not come to its end.
const InterruptedText = "INTERRUPTED: these are the rounds that were whole by then."

// Print writes the tables for people.
func (r *Result) Print(to io.Writer) {
	if r.Interrupted {
		fmt.Fprintf(to, "%s\n\n", InterruptedText)
	}
	fmt.Fprintf(to, "%d connections, %d requests in flight on each; %d rounds of %g s for each row; medians (least..most)\n", r.Connections, r.Depth, r.Rounds, r.Span)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tserver\trequest B\trequests/s\tof echo\tp50 ms\tp99 ms\tserver CPU us\tnot 200\t")
	for i := range r.Ways {
		v := &r.Ways[i]
		ratio := "1"
		if q, ok := r.Ratio(v.Name); ok && v.Server == InferServer {
			ratio = fmt.Sprintf("%.2f (%.2f..%.2f)", q.Median, q.Min, q.Max)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f (%.0f..%.0f)\t%s\t%.1f\t%.1f\t%.1f\t%s\t\n", v.Name, v.Server, v.RequestBytes,
			v.Rate.Median, v.Rate.Min, v.Rate.Max, ratio, v.P50.Median, v.P99.Median, v.CPU.Median, refusedText(v.Refused))
	}
	w.Flush()
}

func refusedText(by map[int]int64) string {
	text := ""
	for i, status := range slices.Sorted(maps.Keys(by)) {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d of %d", by[status], status)
	}
	if text == "" {
		return "0"
	}
	return text
}
