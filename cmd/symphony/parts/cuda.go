package parts

import (
	"github.com/symphony-serving/symphony/backend/cuda"
	door "github.com/symphony-serving/symphony/cgo/cuda"
)

// CUDA is NVIDIA's driver, looked for with its first call. Where there is none, or this
// binary was built without tag cuda, its calls return a *cuda.UnsupportedError.
func CUDA() cuda.Driver { return door.New() }
