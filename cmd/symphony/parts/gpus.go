package parts

import (
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/gpulibs"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// HostGPUs are this host's, through the driver, and ONNX Runtime's CUDA provider on them.
func HostGPUs(c config.Backend, log zerolog.Logger) *backend.GPUs {
	driver := CUDA()
	return &backend.GPUs{Driver: driver, Runtime: func() (cuda.Runtime, string, error) {
		// Not ONNXLibrary: what lies there by default is a build for CPUs.
		set := gpulibs.Find(gpulibs.Options{Path: c.ONNXRuntime, Oldest: onnx.Oldest})
		if err := set.Err(); err != nil {
			return nil, "", err
		}
		if infos, err := driver.Devices(); err == nil && len(infos) > 0 {
			if err := set.ForDriver(infos[0].DriverVersion); err != nil {
				return nil, "", err
			}
		}
		o := onnx.CUDAOptions{Library: set.Runtime.Path, TensorRT: set.TensorRT != nil, Engines: engines(), Logger: log}
		for _, l := range append(set.CUDA[:len(set.CUDA):len(set.CUDA)], set.TensorRT...) {
			o.Preload = append(o.Preload, l.Path)
			log.Debug().Stringer("library", l).Msg("CUDA")
		}
		r, err := onnx.NewCUDA(o)
		if err != nil {
			return nil, "", err
		}
		log.Info().Str("version", onnx.Version()).Str("library", set.Runtime.Path).Str("from", set.Runtime.From).Bool("tensorrt", o.TensorRT).Msg("ONNX Runtime on GPUs")
		return r, "onnxruntime " + onnx.Version(), nil
	}}
}

// tellGPUs says in one line what GPUs there are where no pool wants any.
func tellGPUs(g *backend.GPUs, log zerolog.Logger) {
	infos, err := g.Driver.Devices()
	switch {
	case err != nil:
		log.Info().AnErr("why", err).Msg("GPUs: none; no pool is of kind cuda")
	default:
		log.Info().Int("gpus", len(infos)).Msg("GPUs: not used, no pool is of kind cuda")
	}
}

// engines is where TensorRT keeps what it built; empty: it can keep nothing.
func engines() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "symphony", "tensorrt")
	if os.MkdirAll(dir, 0o755) != nil {
		return ""
	}
	return dir
}
