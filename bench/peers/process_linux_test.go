package peers

import "testing"

func TestParseStat(t *testing.T) {
	if parent, state, ok := parseStat([]byte("12 (a) b (c) S 7 12 12 0\n")); !ok || parent != 7 || state != 'S' {
		t.Errorf("%d %c %v", parent, state, ok)
	}
	for _, text := range []string{"", "12", "12 (a)", "12 (a) S", "12 (a) S x"} {
		if _, _, ok := parseStat([]byte(text)); ok {
			t.Errorf("%q: accepted", text)
		}
	}
}
