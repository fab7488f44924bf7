//go:build cgo

package onnx

import "os"

// telemetryVariable is read by ONNX Runtime's builds for Linux and macOS when the library is
// loaded: where it is unset, "" or "0", the library keeps a device id and a database below the
// home directory and sends events to its maker. Its call DisableTelemetryEvents comes too late
// for the first of them (onnxruntime #25573).
const telemetryVariable = "ORT_DISABLE_TELEMETRY"

// telemetryOff switches that off for this process and for those that it starts: with cgo,
// os.Setenv sets C's environment, too. A value that is set already stays: "0" is the way to
// have the telemetry on purpose.
func telemetryOff() error {
	if os.Getenv(telemetryVariable) != "" {
		return nil
	}
	return os.Setenv(telemetryVariable, "1")
}
