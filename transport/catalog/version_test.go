package catalog

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckVersion(t *testing.T) {
	for _, good := range []string{"0", "1", "9", "10", "4294967295", "4294967296", "1705312200000", "20240115103000", "9223372036854775807"} {
		if err := CheckVersion(good); err != nil || !MeansVersion(good) {
			t.Errorf("%q: %v, meant as a version: %v", good, err, MeansVersion(good))
		}
	}
	for _, bad := range []string{"01", "00", "9223372036854775808", "18446744073709551616", strings.Repeat("9", 300), "-1", "+1", "-0", " 1", "1 ", "１", "١", "1１"} {
		err := CheckVersion(bad)
		if err == nil || !strings.Contains(err.Error(), "must be a whole number from 0 to 9223372036854775807, without zeros in front") {
			t.Errorf("%q: %v", bad, err)
		}
		if !MeansVersion(bad) {
			t.Errorf("%q is not said to be meant as a version", bad)
		}
	}
	for _, other := range []string{"", "profiles", "v1", "1a", "1.0", "1_2", "-", "0x10", "1e3"} {
		if CheckVersion(other) == nil || MeansVersion(other) {
			t.Errorf("%q is a version, or meant as one", other)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	order := []string{"", "01", "1a", "latest", "0", "1", "2", "9", "10", "4294967295", "4294967296", "1705312200000", "20240115103000", "9223372036854775807"}
	mixed := slices.Clone(order)
	slices.Reverse(mixed)
	slices.SortFunc(mixed, CompareVersions)
	if !slices.Equal(mixed, order) {
		t.Errorf("%q", mixed)
	}
}
