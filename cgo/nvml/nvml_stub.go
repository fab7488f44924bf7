//go:build !cgo || !linux || (!amd64 && !arm64)

package nvml

import "github.com/symphony-serving/symphony/backend/telemetry"

// Open says what is missing.
func Open() (telemetry.NVML, error) {
	return nil, &telemetry.UnsupportedError{What: "this binary was built without cgo, or not for Linux on amd64 or arm64", Need: "build it there with CGO_ENABLED=1 and gcc"}
}
