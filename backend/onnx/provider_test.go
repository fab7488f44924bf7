//go:build cgo

package onnx

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/gpulibs"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// driverEnv makes TestProviderKnowsTheOptions the process that asks; it is the path of a driver.
const driverEnv = "SYMPHONY_TEST_CUDA_DRIVER"

// TestProviderKnowsTheOptions: with `make gpu-libs` done, and no driver, the real CUDA
// provider is loaded with CUDA's real libraries by their paths, and knows each option that a
// session gets; behind the one function that it wants of a driver is nothing. And the GPU build
// runs programs and devices on the CPU. In processes of
// their own: there is one ONNX Runtime in each.
func TestProviderKnowsTheOptions(t *testing.T) {
	set := gpulibs.Find(gpulibs.Options{Build: "../../build/gpu/lib"})
	if err := set.Err(); err != nil {
		t.Skip(err)
	}
	if driver := os.Getenv(driverEnv); driver != "" {
		askProvider(t, set, driver)
		return
	}
	driver := filepath.Join(t.TempDir(), "libcuda.so.1")
	cc := exec.Command("cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c", "-o", driver, "-")
	cc.Stdin = strings.NewReader("int cuTensorMapEncodeTiled(void) { return 100; }\n")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := func(tests string, environ ...string) {
		cmd := exec.Command(self, "-test.run="+tests, "-test.v")
		cmd.Env = append(os.Environ(), environ...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	again("^TestProviderKnowsTheOptions$", driverEnv+"="+driver)
	again("^TestProgram|^TestDevice", "SYMPHONY_ONNXRUNTIME="+set.Runtime.Path, "SYMPHONY_REQUIRE_ONNXRUNTIME=1") // the GPU build on the CPU
}

func askProvider(t *testing.T, set gpulibs.Set, driver string) {
	o := CUDAOptions{Library: set.Runtime.Path, Preload: []string{driver}}
	for _, l := range set.CUDA {
		o.Preload = append(o.Preload, l.Path)
	}
	if _, err := NewCUDA(o); err != nil {
		t.Fatal(err)
	}
	p, err := ort.NewCUDAProviderOptions()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Destroy()
	m := &cuda.Model{Spec: &catalog.ModelSpec{MaxBatch: 8}, Precision: cuda.TF32, Graphs: cuda.GraphsOn, Memory: 1 << 30}
	all := cudaOptions(0, 1<<47-8, m)
	delete(all, "device_id") // which asks the driver
	if err := p.Update(all); err != nil {
		t.Errorf("%v: %v", all, err)
	}
	if err := p.Update(map[string]string{"use_tf33": "1"}); err == nil {
		t.Error("the provider takes any option: this test shows nothing")
	}
	// The same library serves pools of kind cpu.
	d := digits(t)
	s, err := Open(d.Path, &d.Spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(batch(&d.Spec, 7)); err != nil {
		t.Error(err)
	}
}
