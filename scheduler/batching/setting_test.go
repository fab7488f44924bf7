package batching

import (
	"errors"
	"testing"
)

// Every setting is printed as it is read.
func TestSettingRoundTrip(t *testing.T) {
	for haste := range uint8(HasteAll + 1) {
		for bits := range 256 {
			s := Setting{Haste: haste, Cap: uint8(bits>>7) * uint8(1+6*haste)}
			for i, f := range s.flags() {
				*f.on = bits>>i&1 == 1
			}
			s.Shed = s.Shed && !s.Head
			if got, err := ParseSetting(s.String()); err != nil || got != s {
				t.Errorf("%+v is written %q and read as %+v, %v", s, s.String(), got, err)
			}
		}
	}
	for text, want := range map[string]Setting{
		"1": {}, "0": {Haste: HasteAll}, "0.5+frontrun": {Haste: 8, Frontrun: true}, "0.26": {Haste: 12},
		"0+alone+latest+head": {Haste: HasteAll, Alone: true, ByLatest: true, Head: true},
		"0+cap92":             {Haste: HasteAll, Cap: 92}, "1+cap1+shed": {Shed: true, Cap: 1}, "0.75+cap99": {Haste: 4, Cap: 99},
		"0+room+cap92":   {Haste: HasteAll, Room: true, Cap: 92},
		"0+latest+alone": {Haste: HasteAll, Alone: true, ByLatest: true},
	} {
		if got, err := ParseSetting(text); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestSettingRefused(t *testing.T) {
	for _, text := range []string{"", "x", "-0.1", "1.01", "NaN", "Inf", "+alone", "0.5+", "0.5+x", "0.5+Alone", "0.5 +alone", "0.5,alone", "0.5++alone",
		"1+cap", "1+cap0", "1+cap100", "1+cap300", "1+cap-5", "1+cap9x", "1+cap+9", "1+Cap90", "1+cap07", "1+cap88+cap92", "1+head+shed"} {
		if s, err := ParseSetting(text); !errors.Is(err, ErrSetting) {
			t.Errorf("%q is read as %+v, %v; want ErrSetting", text, s, err)
		}
	}
}
