package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
)

// Print writes the report for people.
func (p *Report) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tanswered\tgoodput r/s\tbad rate\tp50 ms\tp99 ms\tp99.9 ms\tmax ms\t")
	models, left := p.worst()
	for _, s := range append(models, p.All) {
		name := s.Model
		if name == "" {
			name = "ALL"
		}
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.3f %%\t%.2f\t%.2f\t%.2f\t%.2f\t\n", name, s.Answered, s.Goodput, 100*s.BadRate, s.P50, s.P99, s.P999, s.Max)
	}
	t.Flush()
	if left > 0 {
		fmt.Fprintf(w, "and %d more models, none of them with a higher bad rate; a report as JSON has all\n", left)
	}
	fmt.Fprintf(w, "\noffered %.1f r/s for %.1f s; sent %d with the warm-up, lost %d, answered twice %d; generator lag mean %.2f ms, max %.1f ms\n",
		p.Offered, p.Seconds, p.Sent, p.Lost, p.Duplicates, p.LagMean, p.LagMax)
	if len(p.All.Bad) > 0 {
		fmt.Fprintf(w, "bad by reason: %s\n", Counts(p.All.Bad))
	}
	if p.BatchMean > 0 { // not every server says it
		fmt.Fprintf(w, "batch size: mean %.1f; requests by size: %s\n", p.BatchMean, sizes(p.Batches))
	}
	if len(p.GPUBusy) > 0 {
		fmt.Fprintf(w, "GPU busy share: %s\n", busy(p.GPUBusy))
	}
	fmt.Fprintln(w, p.Verdict)
}

// modelsMost is how many models are printed; of more, only the worst worstMost.
const modelsMost, worstMost = 40, 20

// worst are the models to print, and how many are left out.
func (p *Report) worst() (models []Summary, left int) {
	models = slices.Clone(p.Models)
	if len(models) <= modelsMost {
		return models, 0
	}
	slices.SortStableFunc(models, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(b.BadRate, a.BadRate), cmp.Compare(b.Answered-b.Served, a.Answered-a.Served), cmp.Compare(b.P99, a.P99))
	})
	return models[:worstMost], len(models) - worstMost
}

// Counts is how often each was counted, in one line.
func Counts(m map[string]int64) string {
	var parts []string
	for k, n := range m {
		parts = append(parts, fmt.Sprintf("%s %d", k, n))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

func sizes(m map[int]int64) string {
	var keys []int
	for b := range m {
		keys = append(keys, b)
	}
	slices.Sort(keys)
	var parts []string
	for _, b := range keys {
		parts = append(parts, fmt.Sprintf("%d: %d", b, m[b]))
	}
	return strings.Join(parts, ", ")
}

// busy lists the shares by GPU id, so that consolidation is seen: low ids
// busy, high ids idle.
func busy(m map[string]float64) string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		if len(keys[i]) != len(keys[j]) && strings.Contains(keys[i], "/") {
			pi, gi, _ := strings.Cut(keys[i], "/")
			pj, gj, _ := strings.Cut(keys[j], "/")
			if pi == pj {
				return len(gi) < len(gj)
			}
		}
		return keys[i] < keys[j]
	})
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", k, 100*m[k]))
	}
	return strings.Join(parts, ", ")
}
