package catalog

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// VersionMax is the highest version: 63 bits hold what people name versions by, seconds, milliseconds
// and nanoseconds of today among them, and 20240115103000.
const VersionMax = math.MaxInt64

// CheckVersion refuses what cannot be a version's folder in a repository.
func CheckVersion(version string) error {
	if _, ok := versionNumber(version); !ok {
		return fmt.Errorf("%.40q must be a whole number from 0 to %d, without zeros in front", version, int64(VersionMax))
	}
	return nil
}

// versionNumber is a version's number, if its name is the one way to write it.
func versionNumber(version string) (n int64, ok bool) {
	n, err := strconv.ParseInt(version, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == version
}

// MeansVersion reports whether a folder's name was meant as a version: CheckVersion says what is wrong with it.
func MeansVersion(name string) bool {
	digits := strings.TrimLeft(strings.TrimSpace(name), "+-")
	return digits != "" && !strings.ContainsFunc(digits, func(r rune) bool { return !unicode.IsDigit(r) })
}

// CompareVersions orders "2" before "10"; what is no version's number is below every number, so that
// the order has no circles ("10" < "1a" < "2").
func CompareVersions(a, b string) int {
	x, okX := versionNumber(a)
	y, okY := versionNumber(b)
	switch {
	case okX && okY:
		return cmp.Compare(x, y)
	case okX:
		return 1
	case okY:
		return -1
	}
	return strings.Compare(a, b)
}
