package onnx

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Oldest is the first ONNX Runtime that has the API that onnxruntime_go asks for.
const Oldest = "1.29"

// CUDAOptions say where ONNX Runtime's CUDA provider lies.
type CUDAOptions struct {
	Library  string   // libonnxruntime.so of a GPU build; its providers lie beside it
	Preload  []string // CUDA's libraries by full path, each after those that it needs
	TensorRT bool     // TensorRT's libraries are among them
	Engines  string   // folder where TensorRT keeps what it built; empty: it builds anew
	Logger   zerolog.Logger
}

// cudaOptions are the CUDA provider's for a model on a device. They are set all at once:
// an update starts from the defaults.
func cudaOptions(device int, stream uintptr, m *cuda.Model) map[string]string {
	o := map[string]string{
		"device_id": strconv.Itoa(device),
		// A stream is told as the number of its address. Both keys are needed.
		"has_user_compute_stream": "1",
		"user_compute_stream":     strconv.FormatUint(uint64(stream), 10),
		// What ONNX Runtime itself copies must be in order with the kernels.
		"do_copy_in_default_stream": "1",
		// Blocks that grow by doubling would hold up to twice what a model needs.
		"arena_extend_strategy": "kSameAsRequested",
		// EXHAUSTIVE would try each algorithm for each convolution and each batch size while
		// the model loads: minutes, and another choice at each start, so another l(b).
		"cudnn_conv_algo_search": "HEURISTIC",
		"use_tf32":               flag(m.Precision != cuda.FP32),
		"enable_cuda_graph":      flag(m.Graphs == cuda.GraphsOn),
	}
	if m.Memory > 0 {
		o["gpu_mem_limit"] = strconv.FormatInt(m.Memory, 10)
	}
	return o
}

// tensorRTOptions are the TensorRT provider's. One engine serves all batch sizes, built for
// the largest.
func tensorRTOptions(device int, stream uintptr, m *cuda.Model, engines string) map[string]string {
	o := map[string]string{
		"device_id":               strconv.Itoa(device),
		"has_user_compute_stream": "1",
		"user_compute_stream":     strconv.FormatUint(uint64(stream), 10),
		"trt_fp16_enable":         flag(m.Precision == cuda.FP16),
		"trt_profile_min_shapes":  shapes(m.Spec.Inputs, 1),
		"trt_profile_opt_shapes":  shapes(m.Spec.Inputs, m.Spec.MaxBatch),
		"trt_profile_max_shapes":  shapes(m.Spec.Inputs, m.Spec.MaxBatch),
	}
	if m.Memory > 0 {
		o["trt_max_workspace_size"] = strconv.FormatInt(m.Memory, 10)
	}
	if engines != "" {
		o["trt_engine_cache_enable"], o["trt_engine_cache_path"] = "1", engines
		o["trt_timing_cache_enable"], o["trt_timing_cache_path"] = "1", engines
	}
	return o
}

// shapes writes inputs of a batch as TensorRT's profiles do: "x:8x3x224x224,y:8x1".
func shapes(inputs []catalog.TensorSpec, batch int) string {
	var all []string
	for _, in := range inputs {
		dims := []string{strconv.Itoa(batch)}
		for _, d := range in.Shape {
			dims = append(dims, strconv.FormatInt(d, 10))
		}
		all = append(all, in.Name+":"+strings.Join(dims, "x"))
	}
	return strings.Join(all, ",")
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// checkModel refuses what the providers cannot do.
func checkModel(m *cuda.Model) error {
	switch m.Precision {
	case cuda.FP32, cuda.TF32, cuda.FP16:
	default:
		return fmt.Errorf("%w: precision %q is none of fp32, tf32, fp16", ErrModel, m.Precision)
	}
	if m.Provider == cuda.ProviderTensorRT && m.Precision == cuda.FP32 {
		return fmt.Errorf("%w: TensorRT computes fp32 as tf32, and ONNX Runtime cannot tell it not to: choose precision tf32 or fp16, or provider cuda", ErrModel)
	}
	// Its provider knows no gpu_graph_id: what was captured first would run for all sizes and slots.
	if m.Provider == cuda.ProviderTensorRT && m.Graphs == cuda.GraphsOn {
		return fmt.Errorf("%w: ONNX Runtime keeps one CUDA graph of TensorRT for all batch sizes, which would answer wrongly: leave cuda_graphs out of its config.yaml, or choose provider cuda", ErrModel)
	}
	return nil
}
