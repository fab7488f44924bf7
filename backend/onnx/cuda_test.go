//go:build cgo

package onnx

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// With a library for CPUs the message says so; nothing crashes.
func TestNewCUDAWithoutCUDA(t *testing.T) {
	if _, err := NewCUDA(CUDAOptions{Library: "/does/not/exist.so"}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "make gpu-libs") {
		t.Errorf("%v", err)
	}
	load(t)
	path := os.Getenv("SYMPHONY_ONNXRUNTIME")
	if path == "" {
		path = "../../build/onnxruntime/libonnxruntime.so"
	}
	if _, err := NewCUDA(CUDAOptions{Library: path}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "make gpu-libs") {
		t.Errorf("%v", err)
	}
}

// Another version of onnxruntime_go may ask for a newer API.
func TestOldest(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	header, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "onnxruntime_c_api.h"))
	if err != nil {
		t.Fatal(err)
	}
	want := "#define ORT_API_VERSION " + strings.TrimPrefix(Oldest, "1.") + "\n"
	if !strings.Contains(strings.ReplaceAll(string(header), "\r", ""), want) {
		t.Errorf("the header has another version than %s", Oldest)
	}
}

func TestProviderOptions(t *testing.T) {
	spec := &catalog.ModelSpec{MaxBatch: 8, Inputs: []catalog.TensorSpec{{Name: "a", Shape: []int64{3, 224, 224}}, {Name: "b"}}}
	o := cudaOptions(2, 94387250021712, &cuda.Model{Spec: spec, Precision: cuda.FP32})
	for key, want := range map[string]string{"device_id": "2", "user_compute_stream": "94387250021712", "has_user_compute_stream": "1",
		"use_tf32": "0", "enable_cuda_graph": "0", "gpu_mem_limit": ""} {
		if o[key] != want {
			t.Errorf("%s is %q, want %q", key, o[key], want)
		}
	}
	o = cudaOptions(0, 1, &cuda.Model{Spec: spec, Precision: cuda.TF32, Graphs: cuda.GraphsOn, Memory: 1 << 30})
	if o["use_tf32"] != "1" || o["enable_cuda_graph"] != "1" || o["gpu_mem_limit"] != "1073741824" {
		t.Errorf("%v", o)
	}
	o = tensorRTOptions(1, 7, &cuda.Model{Spec: spec, Precision: cuda.FP16}, "/engines")
	if o["trt_profile_min_shapes"] != "a:1x3x224x224,b:1" || o["trt_profile_max_shapes"] != "a:8x3x224x224,b:8" || o["trt_fp16_enable"] != "1" || o["trt_engine_cache_path"] != "/engines" {
		t.Errorf("%v", o)
	}
}

// What a provider would compute wrongly is refused before it is loaded.
func TestCheckModel(t *testing.T) {
	for _, c := range []struct {
		m    cuda.Model
		want string // in the error; empty: none
	}{
		{cuda.Model{Precision: cuda.FP32, Graphs: cuda.GraphsOn}, ""},
		{cuda.Model{Precision: cuda.FP16, Provider: cuda.ProviderTensorRT}, ""},
		{cuda.Model{Precision: "fp8"}, "fp8"},
		{cuda.Model{Precision: cuda.FP32, Provider: cuda.ProviderTensorRT}, "tf32"},
		{cuda.Model{Precision: cuda.FP16, Provider: cuda.ProviderTensorRT, Graphs: cuda.GraphsOn}, "cuda_graphs"},
	} {
		err := checkModel(&c.m)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
}

// ONNX Runtime's words become the errors of the contract.
func TestDeviceError(t *testing.T) {
	for text, want := range map[string]error{
		"CUDA failure 2: out of memory ; GPU=0 ; hostname=h":                                                   cuda.ErrMemory,
		"bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 4096":                         cuda.ErrMemory,
		"bfc_arena.cc: Available memory of 10 is smaller than requested bytes of 4096":                         cuda.ErrMemory,
		"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0":                                                 cuda.ErrMemory,
		"CUDA failure 700: an illegal memory access was encountered ; GPU=0":                                   cuda.ErrLost,
		"Non-zero status code returned while running Conv node. CUDA failure 214: uncorrectable ECC error ; G": cuda.ErrLost,
	} {
		if err := deviceError(errors.New(text)); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := deviceError(errors.New("CUDA failure 1: invalid argument")); errors.Is(err, cuda.ErrLost) || errors.Is(err, cuda.ErrMemory) {
		t.Errorf("%v", err)
	}
}

// An error of a run that no library of the device speaks of is the model's: it counts against no device.
func TestRunError(t *testing.T) {
	for text, model := range map[string]bool{
		"Non-zero status code returned while running Gather node. Status Message: indices element out of data bounds, idx=99":  true,
		"Non-zero status code returned while running Reshape node. /core/providers/cuda/tensor/reshape.h:12 shapes do not fit": true,
		"Non-zero status code returned while running Mod node. Integer modulo by zero":                                         true,
		"CUDA failure 700: an illegal memory access was encountered ; GPU=0":                                                   false,
		"CUDA failure 1: invalid argument":                              false,
		"CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED":             false,
		"CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED":             false,
		"Failed to allocate memory for requested buffer of size 123456": false,
		"TensorRT EP execution context enqueue failed":                  false,
	} {
		if err := runError(errors.New(text)); errors.Is(err, cuda.ErrModel) != model || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: the model's? want %v", err, model)
		}
	}
}

func TestProbed(t *testing.T) {
	for text, want := range map[string]string{
		"CUDA execution provider is not enabled in this build.":       "build for CPUs",
		"providers_cuda.so: undefined symbol: cuTensorMapEncodeTiled": "newer driver",
		"libcublas.so.13: cannot open shared object file":             "make gpu-libs",
	} {
		if err := probed(errors.New(text)); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := probed(nil); err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	m := &cuda.Model{Path: "m.onnx", Graphs: cuda.GraphsOn}
	for text, want := range map[string]string{
		"assigned to the default CPU EP, but fallback to CPU EP has been explicitly disabled by the user.": "pool of kind cpu",
		"cannot use the graph capture feature as requested":                                                "cuda_graphs",
		"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=0":            "install a newer one",
		"anything else": "m.onnx: anything else",
	} {
		if err := explain(m, errors.New(text)); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := explain(m, errors.New("CUDA failure 2: out of memory")); !errors.Is(err, cuda.ErrMemory) {
		t.Errorf("%v", err)
	}
}
