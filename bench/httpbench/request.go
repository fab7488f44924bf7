package httpbench

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Request is the bytes of an infer request with an FP32 tensor of n elements, for the
// input "x" of the model, whole: line, headers, body.
func Request(model string, n int, json bool) []byte {
	if json {
		body := fmt.Appendf(nil, `{"inputs":[{"name":"x","shape":[1,%d],"datatype":"FP32","data":[`, n)
		for i := range n {
			if i > 0 {
				body = append(body, ',')
			}
			body = strconv.AppendFloat(body, float64(element(i)), 'g', -1, 32)
		}
		return post(model, "", append(body, "]}]}"...))
	}
	body := fmt.Appendf(nil, `{"inputs":[{"name":"x","shape":[1,%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}],`+
		`"parameters":{"binary_data_output":true}}`, n, 4*n)
	header := fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", len(body))
	for i := range n {
		body = binary.LittleEndian.AppendUint32(body, math.Float32bits(element(i)))
	}
	return post(model, header, body)
}

// element is a grey level of a picture as it stands in such requests: 0.14509805.
func element(i int) float32 { return float32(i*37%256) / 255 }

func post(model, header string, body []byte) []byte {
	return append(fmt.Appendf(nil, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: symphony\r\nContent-Length: %d\r\n%s\r\n", model, len(body), header), body...)
}
