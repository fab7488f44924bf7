package invariants

import "testing"

func TestCheck(t *testing.T) {
	Check(true, "holds")
	defer func() {
		if r := recover(); (r != nil) != Enabled {
			t.Fatalf("enabled %v, recovered %v", Enabled, r)
		}
	}()
	Check(false, "does not")
}
