package paper

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// section is what one figure puts into the report. It is kept beside the
// figure's data, so that the report can be made of figures that ran before.
type section struct {
	ID, Title, Command string
	Quick              bool
	Settings           []string
	Plots              []string
	Tables             []table
	Claims             []Claim
	Notes              []string
}

// table is a CSV file's name, and its rows when they are few.
type table struct {
	Name   string
	Header []string
	Rows   [][]string
}

const rowsMax = 24 // of a table within the report

func shortened(rows [][]string) [][]string {
	if len(rows) > rowsMax {
		return nil
	}
	return rows
}

func sectionPath(out, id string) string { return filepath.Join(out, "data", id+".json") }

func (c *section) save(out string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(sectionPath(out, c.ID), append(text, '\n'), 0o644)
}

// loadSection is nil when the figure has not run.
func loadSection(out, id string) (*section, error) {
	text, err := os.ReadFile(sectionPath(out, id))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &section{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", sectionPath(out, id), err)
	}
	return c, nil
}

// writeReport makes REPORT.md of all figures that have run into the folder.
func writeReport(out string, book Book) error {
	var b strings.Builder
	var parts []*section
	for _, f := range book.Figures {
		c, err := loadSection(out, f.ID)
		if err != nil {
			return err
		}
		if c != nil {
			parts = append(parts, c)
		}
	}
	b.WriteString(book.Intro)
	writeSummary(&b, parts)
	for _, c := range parts {
		c.write(&b)
	}
	return os.WriteFile(filepath.Join(out, "REPORT.md"), []byte(b.String()), 0o644)
}

// intro is what the report of the Symphony paper begins with.
func intro() string {
	return "# The paper's evaluation, run again\n\nMade by `symphony bench paper`. Every number is from the simulator: the cores that serve, under a virtual clock. (Not the balance of figure 16: the partitioner itself ran, by the wall clock.)\n" +
		fmt.Sprintf("%s is the scheduler as it serves: it spends as much of the deferral as pays, by simulating itself. %q always spends all of it, as the paper's does. Algorithm 1 is the paper's to the letter.\n\n", Symphony, SymphonyDefer)
}

func writeSummary(b *strings.Builder, parts []*section) {
	b.WriteString("| figure | claims that hold | weaker than the paper says | draws | settings |\n|---|---|---|---|---|\n")
	for _, c := range parts {
		count := map[Verdict]int{}
		for i := range c.Claims {
			count[c.Claims[i].verdict()]++
		}
		how := "full"
		if c.Quick {
			how = "quick: a smoke test"
		}
		fmt.Fprintf(b, "| [%s](#%s) | %d of %d | %d | %d | %s |\n", c.ID, c.ID, count[yes], len(c.Claims), count[Weaker], count[Draw], how)
	}
	b.WriteString("\nA claim holds by the paper's own number, or by what its reason says; \"weaker\" goes in its direction and not as far; a draw is two 95 % intervals (Student's t, over the seeds) that overlap.\n")
}

func (c *section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n<a id=\"%s\"></a>%s.\n\n`%s`\n\n", c.ID, c.ID, c.Title, c.Command)
	for _, line := range c.Settings {
		fmt.Fprintf(b, "- %s\n", line)
	}
	for _, p := range c.Plots {
		fmt.Fprintf(b, "\n![%s](plots/%s.svg)\n", p, p)
	}
	if len(c.Claims) > 0 {
		b.WriteString("\n| claim | paper | here | ratio | holds | why |\n|---|---|---|---|---|---|\n")
	}
	for _, k := range c.Claims {
		ratio := ""
		if k.Ratio != 0 {
			ratio = Number(k.Ratio, 2)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", cell(k.What), cell(k.Paper), cell(k.Ours), ratio, k.verdict(), cell(k.Why))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(b, "\n%s\n", n)
	}
	for _, t := range c.Tables {
		t.write(b)
	}
}

func (t *table) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n[data/%s.csv](data/%s.csv)\n", t.Name, t.Name)
	if t.Rows == nil {
		return
	}
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(cells(t.Header), " | "), strings.Repeat("---|", len(t.Header)))
	for _, r := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells(r), " | "))
	}
}

func cells(row []string) []string {
	out := make([]string, len(row))
	for i := range row {
		out[i] = cell(row[i])
	}
	return out
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
