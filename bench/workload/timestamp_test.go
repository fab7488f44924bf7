package workload

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestTimestamps(t *testing.T) {
	for text, want := range map[string]mono.Time{
		"0": 0, "12": 12e9, "1.5": 15e8, "0.000000001": 1, "0.1234567899": 123456789, "1e-3": 1e6, "2.5E1": 25e9,
		"1700158546.680590123":                1700158546680590123,
		"1970-01-01 00:00:00":                 0,
		"2023-11-16 18:15:46.6805900":         1700158546680590000,
		"2023-11-16T18:15:46.6805900Z":        1700158546680590000,
		"2023-11-16T19:45:46.6805900+01:30":   1700158546680590000,
		"2023-11-16T10:15:46.68059-08:00":     1700158546680590000,
		"2023-11-16 18:15:46.680590000999999": 1700158546680590000,
		"2024-02-29 23:59:59":                 1709251199e9,
	} {
		if got, ok := parseTimestamp([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "-1", "+1", "1.", ".5", "1.2.3", "1x", "1,2", "0x10", "1e", "1e99", "-1e3", "NaN", "Inf", "9200000000", "99999999999999",
		"2023-11-16", "2023-11-16 18:15", "2023-13-01 00:00:00", "2023-00-01 00:00:00", "2023-02-29 00:00:00", "2100-02-29 00:00:00",
		"2023-04-31 00:00:00", "2023-11-16 24:00:00", "2023-11-16 18:60:00", "2023-11-16 18:15:60", "1969-12-31 23:59:59",
		"2262-12-31 00:00:00", "2023/11/16 18:15:46", "2023-11-16 18:15:46.", "2023-11-16 18:15:46.1x", "2023-11-16 18:15:46+1",
		"2023-11-16 18:15:46+01:0x", "2023-11-16 18:15:46+01:60", "1970-01-01 00:00:00+01:00", "2023-11-16_18:15:46", "2023-11-16 18:15:4",
	} {
		if got, ok := parseTimestamp([]byte(text)); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

// Dates against package time, over the whole range.
func TestDatesAgainstPackageTime(t *testing.T) {
	r := newRandom(6, 0)
	for range 100_000 {
		want := time.Unix(int64(r.bits()%secondsMax), int64(r.bits()%1e9)).UTC()
		zone := time.FixedZone("", (int(r.bits()%1439)-719)*60)
		for _, text := range []string{want.Format(time.RFC3339Nano), want.Format("2006-01-02 15:04:05.000000000"), want.In(zone).Format(time.RFC3339Nano)} {
			if got, ok := parseTimestamp([]byte(text)); !ok && want.Unix() > 86400 || ok && int64(got) != want.UnixNano() {
				t.Fatalf("%q: %d %v, want %d", text, got, ok, want.UnixNano())
			}
		}
	}
}
