//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

import (
	"debug/elf"
	"os"
	"strings"
	"testing"
)

// TestBinaryNeedsNoDriver: it starts where there is none, for no library of the driver is
// among those that the loader looks for.
func TestBinaryNeedsNoDriver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range needed {
		if strings.Contains(l, "cuda") {
			t.Errorf("the binary needs %s: another libcuda was found before cgo/cuda/link (make sets CGO_LDFLAGS)", l)
		}
	}
	if len(needed) == 0 {
		t.Error("the binary needs no library at all: this test saw nothing")
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "cu") && s.Section != elf.SHN_UNDEF {
			t.Errorf("%s can be seen by libraries that are loaded later", s.Name)
		}
	}
}
