package fetch

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress says how far a transfer is: on a terminal in one line that is written over,
// elsewhere (a log) by a line now and then, and one at the end.
type Progress struct {
	out      io.Writer
	terminal bool
	every    time.Duration

	name        string
	have, total int64 // bytes; total -1: not known
	first       int64 // bytes that were there at begin
	since, last time.Time
}

// NewProgress writes to f.
func NewProgress(f *os.File) *Progress {
	// As cmd/symphony/cli has it, which would bring half of Symphony into a small tool.
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return &Progress{out: f, terminal: true, every: 200 * time.Millisecond}
	}
	return &Progress{out: f, every: 10 * time.Second}
}

func (p *Progress) begin(name string, have, total int64) {
	if p == nil {
		return
	}
	now := time.Now()
	p.name, p.have, p.first, p.total, p.since, p.last = name, have, have, total, now, now
	if have > 0 {
		p.say("%s goes on from %.1f MB", name, float64(have)/1e6)
	}
}

func (p *Progress) add(n int64) {
	if p == nil {
		return
	}
	p.have += n
	if now := time.Now(); now.Sub(p.last) >= p.every {
		p.last = now
		p.line(p.text(now.Sub(p.since)))
	}
}

// end says what came and how fast.
func (p *Progress) end() {
	if p == nil {
		return
	}
	p.line(p.text(time.Since(p.since)))
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

func (p *Progress) text(took time.Duration) string {
	size := fmt.Sprintf("%.1f MB", float64(p.have)/1e6)
	if p.total >= 0 {
		size = fmt.Sprintf("%.1f of %.1f MB", float64(p.have)/1e6, float64(p.total)/1e6)
	}
	rate := float64(p.have-p.first) / max(took.Seconds(), 1e-3)
	text := fmt.Sprintf("  %s: %s, %.1f MB/s", p.name, size, rate/1e6)
	if left := p.total - p.have; left > 0 && rate > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*1e9).Round(time.Second))
	}
	return text
}

// line replaces the last one on a terminal: \x1b[K clears what was longer.
func (p *Progress) line(text string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

func (p *Progress) say(format string, args ...any) {
	if p != nil {
		fmt.Fprintf(p.out, "  "+format+"\n", args...)
	}
}
