package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Print writes a line for each finding, broken at width, and one that counts them.
func Print(to io.Writer, all []Finding, width int) error {
	part := 0
	for _, f := range all {
		part = max(part, len(f.Part))
	}
	counts := map[State]int{}
	for _, f := range all {
		counts[f.State]++
		if err := hanging(to, fmt.Sprintf("%-4s  %-*s  ", f.State, part, f.Part), f.Found, width); err != nil {
			return err
		}
		if f.Change == "" {
			continue
		}
		if err := hanging(to, strings.Repeat(" ", 4+2+part+2)+"-> ", f.Change, width); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(to, "\n%d looked at: %d fail, %d warn, %d to note, %d ok\n", len(all), counts[Fail], counts[Warn], counts[Note], counts[OK])
	return err
}

// hanging writes text behind a first word, its further lines below its own beginning.
func hanging(to io.Writer, first, text string, width int) error {
	var b strings.Builder
	b.WriteString(first)
	column, fresh := len(first), true
	for _, word := range strings.Fields(text) {
		switch {
		case fresh:
		case column+1+len(word) > width:
			b.WriteString("\n" + strings.Repeat(" ", len(first)))
			column = len(first)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column, fresh = column+len(word), false
	}
	b.WriteByte('\n')
	_, err := io.WriteString(to, b.String())
	return err
}
