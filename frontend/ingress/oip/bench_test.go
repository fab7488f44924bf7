package oip

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func benchBody() []byte {
	var list []string
	for i := range 784 {
		list = append(list, fmt.Sprint(float32(i*37%256)/255))
	}
	return []byte(`{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + strings.Join(list, ",") + `]}]}`)
}

// BenchmarkJSON reads a request with 784 floats into bytes; the standard
// library, into structs, beside it.
func BenchmarkJSON(b *testing.B) {
	body := benchBody()
	b.Run("oip", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		var r Request
		dst := make([]byte, 0, 4*784)
		for b.Loop() {
			if err := r.ParseRequest(body, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := r.Inputs[0].Decode(dst, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			var r struct {
				Inputs []struct {
					Name, Datatype string
					Shape          []int64
					Data           []float32
				}
			}
			if err := json.Unmarshal(body, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
