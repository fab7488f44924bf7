package mono

import (
	"testing"
	"time"
)

func TestAddSaturates(t *testing.T) {
	for _, c := range []struct {
		t    Time
		d    Dur
		want Time
	}{
		{5, 3, 8}, {5, -8, -3}, {Never, 1, Never}, {Never, -1, Never}, {Past, 1, Past},
		{Never - 1, 10, Never}, {Past + 1, -10, Past},
	} {
		if got := c.t.Add(c.d); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.t, c.d, got, c.want)
		}
	}
}

func TestNowRisesAndConverts(t *testing.T) {
	a := Now()
	b := Now()
	if b < a || a <= 0 {
		t.Fatalf("%v then %v", a, b)
	}
	if back := FromStd(a.Std()); back != a {
		t.Errorf("%v became %v on its way over the wall clock's type", a, back)
	}
	if late := time.Until(Now().Add(Second).Std()); late < 900*time.Millisecond || late > time.Second {
		t.Errorf("a second from now is in %v", late)
	}
}

func TestUnits(t *testing.T) {
	if FromMillis(1.0535) != 1053500 || FromSeconds(0.25) != 250*Millisecond || (1500*Microsecond).Millis() != 1.5 || Second.Seconds() != 1 {
		t.Error("conversion of spans")
	}
	for want, v := range map[string]any{"never": Never, "past": Past, "5ms": Time(5 * Millisecond), "1.5ms": 1500 * Microsecond} {
		if got := v.(interface{ String() string }).String(); got != want {
			t.Errorf("%v prints as %q, want %q", v, got, want)
		}
	}
}
