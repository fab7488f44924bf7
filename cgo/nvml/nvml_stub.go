//go:build !cgo || !linux

package nvml

import "github.com/symphony-serving/symphony/backend/telemetry"

// Open says what is missing.
func Open() (telemetry.NVML, error) {
	return nil, &telemetry.UnsupportedError{What: "this binary was built without cgo, or not for Linux", Need: "build it on Linux with CGO_ENABLED=1 and gcc"}
}
