package workload

import (
	"bytes"
	"strconv"

	"github.com/symphony-serving/symphony/transport/mono"
)

// parseTimestamp reads an instant: seconds ("12.5", "1e-3"), or a date and a
// time of day ("2023-11-16 18:15:46.68", "2023-11-16T18:15:46Z", "...+01:00"),
// counted from 1970. Dates are proleptic Gregorian, without leap seconds; those
// without an offset are UTC. Digits beyond the ninth after the point are cut
// off. What does not fit into an int64 of nanoseconds is refused, as is what
// lies before 0.
//
// Written out because a core does not import package time, and because a
// float64 of the seconds since 1970 holds only multiples of 240 ns.
func parseTimestamp(s []byte) (mono.Time, bool) {
	if len(s) > 10 && s[4] == '-' {
		return parseDateTime(s)
	}
	if bytes.ContainsAny(s, "eE") {
		v, err := strconv.ParseFloat(string(s), 64)
		ns := float64(v * 1e9)
		return mono.Time(ns), err == nil && ns >= 0 && ns < 9e18
	}
	whole, ns, ok := parseDecimal(s)
	return instant(whole, ns), ok && whole < secondsMax
}

const secondsMax = 9_200_000_000 // the year 2261

func instant(seconds, ns int64) mono.Time {
	return mono.Time(min(seconds, secondsMax)*int64(mono.Second) + ns)
}

// parseDecimal reads digits and, after a point, more: in billionths, cut off.
func parseDecimal(s []byte) (whole, billionths int64, ok bool) {
	before, after, point := bytes.Cut(s, []byte{'.'})
	whole, ok = parseDigits(before)
	if point && len(after) == 0 {
		return 0, 0, false
	}
	unit := int64(mono.Second)
	for _, c := range after {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		unit /= 10
		billionths += unit * int64(c-'0')
	}
	return whole, billionths, ok
}

// parseDigits reads 1 to 12 digits.
func parseDigits(s []byte) (n int64, ok bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(s) > 0 && len(s) <= 12
}

// parseDateTime reads YYYY-MM-DD, T or a space, hh:mm:ss, a fraction, and Z or
// an offset; the last two may lack.
func parseDateTime(s []byte) (mono.Time, bool) {
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != ' ' && s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	year, ok1 := parseDigits(s[:4])
	month, ok2 := parseDigits(s[5:7])
	day, ok3 := parseDigits(s[8:10])
	hour, ok4 := parseDigits(s[11:13])
	minute, ok5 := parseDigits(s[14:16])
	rest, offset, ok6 := cutOffset(s[17:])
	second, ns, ok7 := parseDecimal(rest)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 {
		return 0, false
	}
	if year < 1970 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	total := (daysSince1970(year, month, day)*24+hour)*3600 + minute*60 + second - offset
	return instant(total, ns), total >= 0 && total < secondsMax
}

// cutOffset takes Z or +hh:mm off; the offset is in seconds east.
func cutOffset(s []byte) (rest []byte, offset int64, ok bool) {
	if rest, ok := bytes.CutSuffix(s, []byte{'Z'}); ok {
		return rest, 0, true
	}
	at := bytes.IndexAny(s, "+-")
	if at < 0 {
		return s, 0, true
	}
	zone := s[at:]
	if len(zone) != 6 || zone[3] != ':' {
		return nil, 0, false
	}
	hours, ok1 := parseDigits(zone[1:3])
	minutes, ok2 := parseDigits(zone[4:])
	offset = hours*3600 + minutes*60
	if zone[0] == '-' {
		offset = -offset
	}
	return s[:at], offset, ok1 && ok2 && hours < 24 && minutes < 60
}

func leap(year int64) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if leap(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysSince1970 of a valid date. The months' days are added up: 11 steps, and
// nothing to get wrong.
func daysSince1970(year, month, day int64) int64 {
	leaps := func(y int64) int64 { return y/4 - y/100 + y/400 } // up to year y
	days := (year-1970)*365 + leaps(year-1) - leaps(1969) + day - 1
	for m := int64(1); m < month; m++ {
		days += daysIn(year, m)
	}
	return days
}
