package main

// wheel is a file of the Python package index, and what is needed of it.
type wheel struct {
	project  string // as the index names it
	version  string
	file     string
	size     int64    // bytes
	sum      string   // "sha256:<hex>", as the index shows it
	folder   string   // in the wheel, of what is needed
	members  []string // patterns of names below it; each names at least one
	unpacked int64    // bytes of those
	links    []string // "name=file": names that a loader asks for and the file does not have
}

// libraries are what ONNX Runtime needs on a GPU, for a machine; none: there are no wheels.
//
// ONNX Runtime 1.31.1 was built with CUDA 13.0 and cuDNN 9.14. CUDA's libraries are those
// of toolkit 13.0 Update 2: they run on each driver that serves CUDA 13, from 580 on, and
// newer ones need not. Of cuDNN, which may be newer than what a program was built with,
// not older, 9.20 is the last one before the wheel grew by 140 MB for kernels of training.
func libraries(arch string) []wheel {
	switch arch {
	case "amd64":
		return librariesAMD64()
	case "arm64":
		return librariesARM64()
	}
	return nil
}

// headerWheels have cuda.h, which includes no other file of CUDA. It is that of 12.4:
// gorgonia.org/cu does not compile with 13's, and a driver for 13 serves programs built with it.
func headerWheels(arch string) []wheel {
	w := wheel{project: "nvidia-cuda-runtime-cu12", version: "12.4.127", folder: "nvidia/cuda_runtime/include", members: []string{"cuda.h"}, unpacked: 1048458}
	switch arch {
	case "amd64":
		w.file, w.size = "nvidia_cuda_runtime_cu12-12.4.127-py3-none-manylinux2014_x86_64.whl", 883737
		w.sum = "sha256:64403288fa2136ee8e467cdc9c9427e0434110899d07c779f25b5c068934faa5"
	case "arm64":
		w.file, w.size = "nvidia_cuda_runtime_cu12-12.4.127-py3-none-manylinux2014_aarch64.whl", 894177
		w.sum = "sha256:961fe0e2e716a2a1d967aab7caee97512f71767f852f67432d572e36cb3a11f3"
	default:
		return nil
	}
	return []wheel{w}
}

const cu13 = "nvidia/cu13/lib"

func librariesAMD64() []wheel {
	return []wheel{
		{
			project: "onnxruntime-gpu", version: "1.31.1", file: "onnxruntime_gpu-1.31.1-cp312-cp312-manylinux_2_28_x86_64.whl",
			size: 255569273, sum: "sha256:05d548956197b9d01f59b625de740e0d6be3593f874e241a12dc0362650ecdf7",
			folder: "onnxruntime/capi", members: []string{"libonnxruntime.so.1.31.1", "libonnxruntime_providers_shared.so", "libonnxruntime_providers_cuda.so", "libonnxruntime_providers_tensorrt.so"},
			unpacked: 314446184, links: []string{"libonnxruntime.so.1=libonnxruntime.so.1.31.1"},
		},
		{
			project: "nvidia-cuda-runtime", version: "13.0.96", file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
			size: 2243632, sum: "sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
			folder: cu13, members: []string{"libcudart.so.13"}, unpacked: 704288,
		},
		{
			project: "nvidia-cublas", version: "13.1.0.3", file: "nvidia_cublas-13.1.0.3-py3-none-manylinux_2_27_x86_64.whl",
			size: 423133236, sum: "sha256:ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171",
			folder: cu13, members: []string{"libcublas.so.13", "libcublasLt.so.13"}, unpacked: 595773576,
		},
		{
			project: "nvidia-curand", version: "10.4.0.35", file: "nvidia_curand-10.4.0.35-py3-none-manylinux_2_27_x86_64.whl",
			size: 59544258, sum: "sha256:1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc",
			folder: cu13, members: []string{"libcurand.so.10"}, unpacked: 132698328,
		},
		{
			project: "nvidia-cufft", version: "12.0.0.61", file: "nvidia_cufft-12.0.0.61-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
			size: 214085489, sum: "sha256:6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3",
			folder: cu13, members: []string{"libcufft.so.12"}, unpacked: 286542352,
		},
		{
			project: "nvidia-cudnn-cu13", version: "9.20.0.48", file: "nvidia_cudnn_cu13-9.20.0.48-py3-none-manylinux_2_27_x86_64.whl",
			size: 366173588, sum: "sha256:0c45dd8eeb50b603f07995b1b300c62ffe6a1980482b82b3bcf94a4ca9d49304",
			folder: "nvidia/cudnn/lib", members: []string{"libcudnn.so.9", "libcudnn_*.so.9"}, unpacked: 493418952,
		},
		{
			project: "nvidia-cuda-nvrtc", version: "13.0.88", file: "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
			size: 90215200, sum: "sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
			folder: cu13, members: []string{"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}, unpacked: 113718680,
		},
	}
}

// librariesARM64 are the same for servers with ARM processors, without TensorRT's provider.
func librariesARM64() []wheel {
	return []wheel{
		{
			project: "onnxruntime-gpu", version: "1.31.1", file: "onnxruntime_gpu-1.31.1-cp312-cp312-manylinux_2_34_aarch64.whl",
			size: 212341829, sum: "sha256:a0f1725c5a6d1ef82d63498b5ebc25e2c90c9560e91dc76db9be4a49162d4d33",
			folder: "onnxruntime/capi", members: []string{"libonnxruntime.so.1.31.1", "libonnxruntime_providers_shared.so", "libonnxruntime_providers_cuda.so"},
			unpacked: 263058608, links: []string{"libonnxruntime.so.1=libonnxruntime.so.1.31.1"},
		},
		{
			project: "nvidia-cuda-runtime", version: "13.0.96", file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
			size: 2261060, sum: "sha256:ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
			folder: cu13, members: []string{"libcudart.so.13"}, unpacked: 707752,
		},
		{
			project: "nvidia-cublas", version: "13.1.0.3", file: "nvidia_cublas-13.1.0.3-py3-none-manylinux_2_27_aarch64.whl",
			size: 542851226, sum: "sha256:c86fc7f7ae36d7528288c5d88098edcb7b02c633d262e7ddbb86b0ad91be5df2",
			folder: cu13, members: []string{"libcublas.so.13", "libcublasLt.so.13"}, unpacked: 691847976,
		},
		{
			project: "nvidia-curand", version: "10.4.0.35", file: "nvidia_curand-10.4.0.35-py3-none-manylinux_2_27_aarch64.whl",
			size: 61962106, sum: "sha256:133df5a7509c3e292aaa2b477afd0194f06ce4ea24d714d616ff36439cee349a",
			folder: cu13, members: []string{"libcurand.so.10"}, unpacked: 147889368,
		},
		{
			project: "nvidia-cufft", version: "12.0.0.61", file: "nvidia_cufft-12.0.0.61-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
			size: 214053554, sum: "sha256:2708c852ef8cd89d1d2068bdbece0aa188813a0c934db3779b9b1faa8442e5f5",
			folder: cu13, members: []string{"libcufft.so.12"}, unpacked: 283285752,
		},
		{
			project: "nvidia-cudnn-cu13", version: "9.20.0.48", file: "nvidia_cudnn_cu13-9.20.0.48-py3-none-manylinux_2_27_aarch64.whl",
			size: 444574296, sum: "sha256:e31454ae00094b0c55319d9d15b6fa2fc50a9e1c0f5c8c80fb75258234e731e1",
			folder: "nvidia/cudnn/lib", members: []string{"libcudnn.so.9", "libcudnn_*.so.9"}, unpacked: 600658536,
		},
		{
			project: "nvidia-cuda-nvrtc", version: "13.0.88", file: "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
			size: 43015449, sum: "sha256:d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
			folder: cu13, members: []string{"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}, unpacked: 103886400,
		},
	}
}
