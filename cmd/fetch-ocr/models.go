package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// revision counts the ways in which the repository was written: with another one it is
// written again.
const revision = 1

// model is one of the repository.
type model struct {
	name, member string
	text         string // of config.yaml, but for labels
	labels       func(file []byte) ([]string, error)
}

// Both have one fixed width: their axes are dynamic, and requests of one model have one shape.
// An output of the recogniser has 1.06 MB, a batch of 16 of them 17 MB.
func models() []model {
	const folder = "rapidocr_onnxruntime/models/"
	return []model{
		{"ppocr-rec", folder + "ch_PP-OCRv4_rec_infer.onnx", `# PP-OCRv4's recogniser: a line of text, 48 pixels high and 320 wide, to 40 steps with the
# probability of each character (CTC: 0 is blank). Written by make models-ocr.
platform: onnxruntime
device_type: cpu
slo: 10s
max_batch: 16
inputs:
  - {name: x, type: FP32, shape: [3, 48, 320]}
outputs:
  - {name: softmax_11.tmp_0, type: FP32, shape: [40, 6625]}
`, alphabet},
		{"ppocr-cls", folder + "ch_ppocr_mobile_v2.0_cls_infer.onnx", `# PP-OCR's classifier: whether a line of text stands upside down. Written by make models-ocr.
platform: onnxruntime
device_type: cpu
slo: 2s
max_batch: 16
inputs:
  - {name: x, type: FP32, shape: [3, 48, 192]}
outputs:
  - {name: save_infer_model/scale_0.tmp_1, type: FP32, shape: [2]}
`, func([]byte) ([]string, error) { return []string{"0", "180"}, nil }},
	}
}

// config is the model's config.yaml: its labels are those of the output's last dimension.
func (m model) config(file []byte) ([]byte, error) {
	labels, err := m.labels(file)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(labels) // which is YAML, too
	return append([]byte(m.text+"labels: "), append(list, '\n')...), err
}

// alphabet is the recogniser's: the characters that it says of itself, one a line, between
// "blank" and the space.
func alphabet(file []byte) ([]string, error) {
	text, err := metadata(file, "character")
	if err != nil {
		return nil, err
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(all) != 6623 {
		return nil, fmt.Errorf("it knows %d characters, want 6623", len(all))
	}
	return append(append([]string{"blank"}, all...), " "), nil
}

var errBroken = errors.New("this is no ONNX file")

// metadata is what an ONNX file says of itself under a key: ModelProto.metadata_props, of
// which each has a key (1) and a value (2).
func metadata(file []byte, key string) ([]byte, error) {
	var value []byte
	err := fields(file, func(number uint64, b []byte) error {
		if number != 14 {
			return nil
		}
		var k, v []byte
		err := fields(b, func(number uint64, b []byte) error {
			switch number {
			case 1:
				k = b
			case 2:
				v = b
			}
			return nil
		})
		if bytes.Equal(k, []byte(key)) {
			value = v
		}
		return err
	})
	if err == nil && value == nil {
		err = fmt.Errorf("it says nothing of %q", key)
	}
	return value, err
}

// fields walks a message of Protocol Buffers, and hands on those that have a length.
func fields(b []byte, each func(number uint64, b []byte) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errBroken
		}
		b = b[n:]
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(b)
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			length, skip := binary.Uvarint(b)
			if skip <= 0 || length > uint64(len(b)-skip) {
				return errBroken
			}
			if err := each(tag>>3, b[skip:skip+int(length)]); err != nil {
				return err
			}
			n = skip + int(length)
		default:
			return errBroken
		}
		if n <= 0 || n > len(b) {
			return errBroken
		}
		b = b[n:]
	}
	return nil
}
