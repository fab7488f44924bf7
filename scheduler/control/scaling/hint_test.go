package scaling

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// at is an instant of the week.
func at(dayOfWeek, hour, minute int) mono.Dur {
	return mono.Dur((dayOfWeek*24+hour)*60+minute) * 60 * mono.Second
}

func TestHints(t *testing.T) {
	const lead = 600 * mono.Second
	for _, c := range []struct {
		text string
		at   mono.Dur
		want bool
	}{
		{"10 mon-fri 08:30-18:00", at(0, 8, 19), false},
		{"10 mon-fri 08:30-18:00", at(0, 8, 20), true}, // the lead time before
		{"10 mon-fri 08:30-18:00", at(0, 17, 59), true},
		{"10 mon-fri 08:30-18:00", at(0, 18, 0), false},
		{"10 mon-fri 08:30-18:00", at(4, 12, 0), true},
		{"10 mon-fri 08:30-18:00", at(5, 12, 0), false},
		{"10 fri-mon 08:30-18:00", at(6, 12, 0), true}, // over the week's end
		{"10 fri-mon 08:30-18:00", at(1, 12, 0), false},
		{"10 sat,wed 08:30-18:00", at(2, 12, 0), true},
		{"10 Sun 22:00-02:00", at(0, 1, 59), true}, // over midnight, and into the next week
		{"10 sun 22:00-02:00", at(0, 2, 0), false},
		{"10 mon 00:00-01:00", at(6, 23, 50), true}, // its lead time is in the week before
		{"10 daily 00:00-24:00", at(3, 4, 5), true},
		{"10 daily 09:00-09:00", at(3, 4, 5), true}, // a whole day from nine to nine
	} {
		h, err := ParseHint(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.holds(c.at, lead); got != c.want {
			t.Errorf("%q at %v of the week: %v", c.text, c.at, got)
		}
	}
}

func TestHintsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "three words",
		"mon 08:00-09:00":          "three words",
		"0 mon 08:00-09:00":        "number of GPUs",
		"x mon 08:00-09:00":        "number of GPUs",
		"9 mo 08:00-09:00":         `"mo" is no day`,
		"9 mon-x 08:00-09:00":      `"mon-x" is no day`,
		"9 mon 08:00":              "no span of the day",
		"9 mon 8-9":                "no span of the day",
		"9 mon 08:00-25:00":        "no time of the day",
		"9 mon 08:00-24:01":        "no time of the day",
		"9 mon 08:60-09:00":        "no span of the day",
		"9999999999 mon 8:00-9:00": "number of GPUs",
	} {
		if _, err := ParseHint(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFloor(t *testing.T) {
	var c Config
	for _, text := range []string{"10 daily 08:00-18:00", "30 daily 12:00-13:00"} {
		h, err := ParseHint(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Hints = append(c.Hints, h)
	}
	c.Min, c.Max = 4, 20
	c.fill()
	for _, k := range []struct {
		at   mono.Dur
		want int
		why  string
	}{{at(0, 7, 0), 4, ""}, {at(0, 9, 0), 10, "10 daily 08:00-18:00"}, {at(0, 12, 30), 20, "30 daily 12:00-13:00"}} {
		if n, why := c.floor(k.at); n != k.want || why != k.why {
			t.Errorf("at %v: %d, %q", k.at, n, why)
		}
	}
}
