package scaling

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	day  = 24 * 3600 * mono.Second
	week = 7 * day
)

// Hint is a number of GPUs that there are to be at least, at certain times of the week. They are
// ordered so much earlier that they serve when the time has come.
type Hint struct {
	GPUs     int
	Days     [7]bool  // on which it begins; Monday is the first
	From, To mono.Dur // of the day; To at or before From: it ends on the next day

	text string
}

// String is the text that it was parsed from.
func (h Hint) String() string { return h.text }

func daysOfWeek() [7]string { return [...]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} }

// ParseHint reads "10 mon-fri 08:30-18:00": GPUs, days (mon, mon-fri, sat,sun, daily) and times of
// the day.
func ParseHint(text string) (Hint, error) {
	h := Hint{text: strings.Join(strings.Fields(text), " ")}
	wrong := func(why string) (Hint, error) {
		return Hint{}, fmt.Errorf("%q: %s; write GPUs, days and times, like \"10 mon-fri 08:30-18:00\"", text, why)
	}
	f := strings.Fields(text)
	if len(f) != 3 {
		return wrong("has not three words")
	}
	var err error
	if h.GPUs, err = strconv.Atoi(f[0]); err != nil || h.GPUs < 1 || h.GPUs > 1<<20 {
		return wrong("begins with no number of GPUs")
	}
	if h.Days, err = parseDays(strings.ToLower(f[1])); err != nil {
		return wrong(err.Error())
	}
	from, to, ok := strings.Cut(f[2], "-")
	if h.From, err = parseClock(from); err != nil || !ok {
		return wrong(fmt.Sprintf("%q is no span of the day", f[2]))
	}
	if h.To, err = parseClock(to); err != nil {
		return wrong(err.Error())
	}
	return h, nil
}

func parseDays(text string) (days [7]bool, err error) {
	if text == "daily" {
		return [...]bool{true, true, true, true, true, true, true}, nil
	}
	names := daysOfWeek()
	find := func(name string) int {
		for i, n := range names {
			if n == name {
				return i
			}
		}
		return -1
	}
	for _, part := range strings.Split(text, ",") {
		a, b, span := strings.Cut(part, "-")
		first, last := find(a), find(a)
		if span {
			last = find(b)
		}
		if first < 0 || last < 0 {
			return days, fmt.Errorf("%q is no day: they are %s, and daily", part, strings.Join(names[:], ", "))
		}
		for i := first; ; i = (i + 1) % 7 {
			days[i] = true
			if i == last {
				break
			}
		}
	}
	return days, nil
}

func parseClock(text string) (mono.Dur, error) {
	hour, minute, ok := strings.Cut(text, ":")
	h, errH := strconv.Atoi(hour)
	m, errM := strconv.Atoi(minute)
	if !ok || errH != nil || errM != nil || len(minute) != 2 || h < 0 || m < 0 || m > 59 || h > 24 || h == 24 && m > 0 {
		return 0, fmt.Errorf("%q is no time of the day: write 08:30", text)
	}
	return mono.Dur(h*60+m) * 60 * mono.Second, nil
}

// holds reports whether it does at that time of the week, or will within lead.
func (h *Hint) holds(at, lead mono.Dur) bool {
	length := h.To - h.From
	if length <= 0 {
		length += day
	}
	for i, on := range h.Days {
		if !on {
			continue
		}
		begin := mono.Dur(i)*day + h.From - lead
		if since := ((at-begin)%week + week) % week; since < min(length+lead, week) {
			return true
		}
	}
	return false
}

// floor is the least number of GPUs at that time of the week, and why; "": it is Min.
func (c *Config) floor(at mono.Dur) (gpus int, why string) {
	gpus = c.Min
	for i := range c.Hints {
		if h := &c.Hints[i]; h.GPUs > gpus && h.holds(at, c.Lead) {
			gpus, why = h.GPUs, h.String()
		}
	}
	return min(gpus, c.Max), why
}
