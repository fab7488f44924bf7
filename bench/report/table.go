package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Table lines up columns that are parted by tabs, to the right. Flush it.
func Table(to io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// Micros writes microseconds; "-" for 0: not known, or a percentile of too few samples.
func Micros(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
