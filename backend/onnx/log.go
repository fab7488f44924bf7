//go:build cgo

package onnx

import (
	"strings"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/transport/sampled"
)

// lineMax bounds the text of a line.
const lineMax = 1000

// LogTo has ONNX Runtime's own log go to this one, which a line reaches at most each sampled.Span: its errors are
// returned, too, and logged with their model's name.
func LogTo(log zerolog.Logger) {
	lines := sampled.New(sampled.Span, func(l onnxrt.Line, left int) {
		e := log.Warn().Str("category", l.Category).Str("location", l.Location)
		if left > 0 {
			e = e.Int("and_others", left)
		}
		e.Str("text", oneLine(l.Message)).Msg("ONNX Runtime says")
	})
	onnxrt.LogTo(lines.Add)
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.ToValidUTF8(s[:min(len(s), lineMax)], "")
}
