package paper

import (
	"strconv"
	"strings"
)

// Rate writes requests/s for people: 5,264.
func Rate(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	sign, digits := cutSign(digits)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func cutSign(s string) (sign, digits string) {
	if d, ok := strings.CutPrefix(s, "-"); ok {
		return "-", d
	}
	return "", s
}

// Number writes a value for a table: so many digits behind the point.
func Number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// Percent writes a share.
func Percent(v float64) string { return Number(100*v, 1) + " %" }
