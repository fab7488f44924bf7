package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// conformance is how the suite ended.
type conformance struct {
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	Slowest string   `json:"slowest"`
	Output  string   `json:"output,omitempty"` // the end of it, where something failed
}

// suiteMost bounds what is kept of the suite's output.
const suiteMost = 1 << 20

// conform runs the suite.
func conform(ctx context.Context, b *bench) (section, error) {
	if b.m.Suite == nil {
		return nil, errors.New("the suite's test binary is not here: scripts/test-gpu.sh builds it with the tag cuda")
	}
	out := &bounded{most: suiteMost}
	err := b.m.Suite(ctx, out)
	c := parseTests(out.b.String())
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case len(c.Failed) > 0:
		err = fmt.Errorf("%d of %d tests failed: %s", len(c.Failed), c.Passed+len(c.Failed), strings.Join(c.Failed, ", "))
	case err == nil && c.Passed == 0:
		err = errors.New("no test ran")
	}
	if err != nil {
		c.Output = lastLines(out.b.String(), 60)
	}
	return c, err
}

// bounded keeps the first bytes; more is thrown away.
type bounded struct {
	b    bytes.Buffer
	most int
}

// Write implements io.Writer.
func (w *bounded) Write(p []byte) (int, error) {
	w.b.Write(p[:min(len(p), max(0, w.most-w.b.Len()))])
	return len(p), nil
}

// parseTests reads what `go test -v` prints. A test with parts counts by its parts.
func parseTests(text string) *conformance {
	line := regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)`)
	c := &conformance{}
	found := line.FindAllStringSubmatch(text, -1)
	parents := map[string]bool{}
	for _, m := range found {
		for i, r := range m[2] {
			if r == '/' {
				parents[m[2][:i]] = true
			}
		}
	}
	slowest := -1.0
	for _, m := range found {
		name := m[2]
		if parents[name] {
			continue
		}
		switch m[1] {
		case "PASS":
			c.Passed++
		case "FAIL":
			c.Failed = append(c.Failed, name)
		case "SKIP":
			c.Skipped = append(c.Skipped, name)
		}
		var seconds float64
		if _, err := fmt.Sscan(m[3], &seconds); err == nil && seconds > slowest {
			slowest, c.Slowest = seconds, fmt.Sprintf("%s, %.2f s", name, seconds)
		}
	}
	return c
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (c *conformance) summary() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, len(c.Failed), len(c.Skipped))
}

func (c *conformance) pictures() []named { return nil }

func (c *conformance) table() [][]string { return nil }

func (c *conformance) text() string {
	text := fmt.Sprintf("`backend/cuda/drivertest`, to which the software's driver is held as well, on the real driver: %s. The slowest: %s.\n", c.summary(), orNone(c.Slowest))
	for _, l := range []struct {
		what  string
		names []string
	}{{"Failed", c.Failed}, {"Skipped", c.Skipped}} {
		if len(l.names) > 0 {
			text += fmt.Sprintf("\n%s: `%s`\n", l.what, strings.Join(l.names, "`, `"))
		}
	}
	if c.Output != "" {
		text += "\nThe end of its output:\n\n```\n" + strings.ReplaceAll(c.Output, "```", "'''") + "\n```\n"
	}
	return text
}
