package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// grid is a Markdown table: rows of cells, the first of which are the headings.
type grid [][]string

// String writes it. What would end a cell does not.
func (g grid) String() string {
	var b strings.Builder
	for i, row := range g {
		b.WriteString("|")
		for _, cell := range row {
			b.WriteString(" " + strings.NewReplacer("|", "/", "\n", " ").Replace(cell) + " |")
		}
		b.WriteString("\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

// number writes a measured value without more digits than it deserves; "-" for 0: not told.
func number(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// precise is for data files.
func precise(v float64) string { return strconv.FormatFloat(v, 'g', 7, 64) }

// thousands writes 5264 as 5,264; "" for 0.
func thousands(v float64) string {
	if v == 0 {
		return ""
	}
	if v < 10 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func percents(shares []float64) string {
	var out []string
	for _, s := range shares {
		out = append(out, percent(s))
	}
	return strings.Join(out, ", ")
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func join(numbers []int, by string) string {
	var out []string
	for _, n := range numbers {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, by)
}
