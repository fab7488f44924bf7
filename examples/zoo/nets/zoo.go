package nets

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Model is a network of the zoo with what it is served by.
type Model struct {
	Name    string
	Net     Net
	Seed    uint64
	About   string // of the network, for config.yaml
	Picture bool   // clients may send JPEG and PNG
	OnGPU   Serving
	OnCPU   Serving
}

// Serving is what config.yaml says of a device type.
type Serving struct {
	DeviceType string
	SLO        time.Duration
	MaxBatch   int
}

// Zoo lists the models.
func Zoo() []Model {
	gpu := func(slo time.Duration, maxBatch int) Serving { return Serving{"cuda", slo, maxBatch} }
	cpu := func(slo time.Duration) Serving { return Serving{"cpu", slo, 4} }
	return []Model{
		{Name: "resnet50", Net: ResNet50(), Seed: 50, Picture: true, OnGPU: gpu(30*time.Millisecond, 64), OnCPU: cpu(2 * time.Second),
			About: "ResNet50 for pictures of 224x224"},
		{Name: "mobilenet", Net: MobileNetV1(), Seed: 51, Picture: true, OnGPU: gpu(25*time.Millisecond, 64), OnCPU: cpu(time.Second),
			About: "MobileNet (version 1, width 1) for pictures of 224x224"},
		{Name: "bert-base", Net: BERTBase(), Seed: 52, OnGPU: gpu(50*time.Millisecond, 32), OnCPU: cpu(5 * time.Second),
			About: "An encoder of BERT base's size for texts of 128 tokens"},
	}
}

// Find gives the models of these names; all when there are none.
func Find(names []string) ([]Model, error) {
	all := Zoo()
	if len(names) == 0 {
		return all, nil
	}
	var out []Model
	var have []string
	for _, m := range all {
		have = append(have, m.Name)
		if slices.Contains(names, m.Name) {
			out = append(out, m)
		}
	}
	for _, n := range names {
		if !slices.Contains(have, n) {
			return nil, fmt.Errorf("the zoo has no model %q; it has %s", n, strings.Join(have, ", "))
		}
	}
	return out, nil
}

// Key is the model's name in a repository.
func (m Model) Key(p Precision) string {
	if p == FP32 {
		return m.Name
	}
	return m.Name + "-" + string(p)
}

// File describes the model's file.
func (m Model) File(p Precision) *onnxfile.Model { return File(m.Key(p), m.Net, m.Seed, p) }

// Config is the model's config.yaml.
func (m Model) Config(p Precision, s Serving) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, with weights from a seed (%s): its answers mean nothing.\n", m.About, p)
	b.WriteString("# Written by examples/zoo, which leaves it alone once it is changed.\n")
	fmt.Fprintf(&b, "platform: onnxruntime\ndevice_type: %s\nslo: %v\nmax_batch: %d\n", s.DeviceType, s.SLO, s.MaxBatch)
	if p != FP32 {
		fmt.Fprintf(&b, "precision: %s\n", p)
	}
	tensors(&b, "inputs", m.Net.Inputs())
	tensors(&b, "outputs", m.Net.Outputs())
	if m.Picture {
		b.WriteString("# Any picture: the shorter edge to 256, the middle of it, colours as ImageNet's networks get them.\n")
		b.WriteString("image: {layout: NCHW, channels: 3, resize: 256, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}\n")
	}
	return b.String()
}

func tensors(b *strings.Builder, side string, specs []catalog.TensorSpec) {
	fmt.Fprintf(b, "%s:\n", side)
	for _, s := range specs {
		shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Shape), "[]"), " ", ", ")
		fmt.Fprintf(b, "  - {name: %s, type: %s, shape: [%s]}\n", s.Name, s.Type, shape)
	}
}
