package load

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// jsonData is the tensor's data as a flat JSON array.
func jsonData(t frontend.Tensor) ([]byte, error) {
	if t.Type == catalog.Bytes {
		return jsonStrings(t)
	}
	size := t.Type.Size()
	if size <= 0 {
		return nil, fmt.Errorf("input %s is of %s, which is no type of the protocol", t.Name, t.Type)
	}
	out := []byte{'['}
	for rest := t.Data; len(rest) >= size; rest = rest[size:] {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = appendNumber(out, t.Type, rest)
	}
	return append(out, ']'), nil
}

func appendNumber(out []byte, kind catalog.DataType, b []byte) []byte {
	le := binary.LittleEndian
	switch kind {
	case catalog.Bool:
		return strconv.AppendBool(out, b[0] != 0)
	case catalog.Uint8:
		return strconv.AppendUint(out, uint64(b[0]), 10)
	case catalog.Uint16:
		return strconv.AppendUint(out, uint64(le.Uint16(b)), 10)
	case catalog.Uint32:
		return strconv.AppendUint(out, uint64(le.Uint32(b)), 10)
	case catalog.Uint64:
		return strconv.AppendUint(out, le.Uint64(b), 10)
	case catalog.Int8:
		return strconv.AppendInt(out, int64(int8(b[0])), 10)
	case catalog.Int16:
		return strconv.AppendInt(out, int64(int16(le.Uint16(b))), 10)
	case catalog.Int32:
		return strconv.AppendInt(out, int64(int32(le.Uint32(b))), 10)
	case catalog.Int64:
		return strconv.AppendInt(out, int64(le.Uint64(b)), 10)
	case catalog.FP32:
		return strconv.AppendFloat(out, float64(math.Float32frombits(le.Uint32(b))), 'g', -1, 32)
	case catalog.FP64:
		return strconv.AppendFloat(out, math.Float64frombits(le.Uint64(b)), 'g', -1, 64)
	}
	return append(out, '0') // FP16: MakeInputAs makes no other
}

// jsonStrings takes the elements apart: a length in four bytes, and so many.
func jsonStrings(t frontend.Tensor) ([]byte, error) {
	list := []string{}
	for rest := t.Data; len(rest) >= 4; {
		n := int(binary.LittleEndian.Uint32(rest))
		if n > len(rest)-4 {
			return nil, fmt.Errorf("input %s: an element of %d bytes goes beyond the tensor", t.Name, n)
		}
		list = append(list, string(rest[4:4+n]))
		rest = rest[4+n:]
	}
	return json.Marshal(list)
}
