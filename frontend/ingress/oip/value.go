package oip

import (
	"encoding/binary"
	"math"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Value is the first element of b as a float, of a type with a fixed size.
// 64-bit integers are rounded.
func Value(t catalog.DataType, b []byte) float64 {
	switch t {
	case catalog.FP16:
		return float64(catalog.FromHalf(binary.LittleEndian.Uint16(b)))
	case catalog.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case catalog.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case catalog.Bool, catalog.Uint8:
		return float64(b[0])
	case catalog.Uint16:
		return float64(binary.LittleEndian.Uint16(b))
	case catalog.Uint32:
		return float64(binary.LittleEndian.Uint32(b))
	case catalog.Uint64:
		return float64(binary.LittleEndian.Uint64(b))
	case catalog.Int8:
		return float64(int8(b[0]))
	case catalog.Int16:
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case catalog.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	}
	return float64(int64(binary.LittleEndian.Uint64(b)))
}
