package e2e

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestStartsHoweverSymbolsAreBound: some linkers have the binary's symbols bound as it
// starts, before any library of NVIDIA's is asked for. One that is unresolved would end it.
func TestStartsHoweverSymbolsAreBound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not Linux: no ELF")
	}
	binary := filepath.Join(t.TempDir(), "symphony")
	build := exec.Command("go", "build", "-ldflags", "-extldflags=-Wl,-z,now", "-o", binary, "./cmd/symphony")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Section(".dynamic") == nil {
		t.Skip("built without cgo: it has no symbols to bind")
	}
	if flags, err := f.DynValue(elf.DT_FLAGS); err != nil || len(flags) != 1 || flags[0]&uint64(elf.DF_BIND_NOW) == 0 {
		t.Fatalf("the linker did not take -z now: %v, %v", flags, err)
	}
	for args, want := range map[string]string{"version": "symphony", "devices": "NVML"} {
		for _, binary := range []string{binary, symphony} {
			cmd := exec.Command(binary, args)
			cmd.Env = append(os.Environ(), "LD_BIND_NOW=1")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s %s: %v\n%s", binary, args, err, out)
			}
		}
	}
}
