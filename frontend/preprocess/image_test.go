package preprocess

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

func encodePNG(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func floats(b []byte) []float32 {
	var out []float32
	for ; len(b) > 0; b = b[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return out
}

func plan(t testing.TB, spec catalog.ImageSpec, typ catalog.DataType, shape ...int64) *Plan {
	t.Helper()
	p, err := NewPlan(spec, catalog.TensorSpec{Name: "in", Type: typ, Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }

// Two pixels, one red and one blue, by hand in both layouts.
func TestLayoutAndNormalisation(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 2, 1))
	img.Set(0, 0, color.RGBA{255, 0, 0, 255})
	img.Set(1, 0, color.RGBA{0, 0, 255, 255})
	spec := catalog.ImageSpec{Layout: "NCHW", Channels: 3, Mean: []float64{0.5, 0.5, 0.5}, Std: []float64{0.5, 0.25, 0.5}}
	for layout, want := range map[string][]float32{
		"NCHW": {1, -1, -2, -2, -1, 1},
		"NHWC": {1, -2, -1, -1, -2, 1},
	} {
		spec.Layout = layout
		shape := []int64{3, 1, 2}
		if layout == "NHWC" {
			shape = []int64{1, 2, 3}
		}
		p := plan(t, spec, catalog.FP32, shape...)
		dst := make([]byte, p.Size())
		if err := p.Into(dst, encodePNG(t, img)); err != nil {
			t.Fatal(err)
		}
		for i, v := range floats(dst) {
			if !near(v, want[i]) {
				t.Errorf("%s: %v, want %v", layout, floats(dst), want)
				break
			}
		}
	}
}

func TestGreyScaleInvertAndUint8(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	copy(img.Pix, []byte{0, 64, 128, 255})
	p := plan(t, catalog.ImageSpec{Layout: "NCHW", Channels: 1, Scale: 16.0 / 255}, catalog.FP32, 1, 2, 2)
	dst := make([]byte, p.Size())
	if err := p.Into(dst, encodePNG(t, img)); err != nil {
		t.Fatal(err)
	}
	if v := floats(dst); !near(v[3], 16) || v[0] != 0 {
		t.Errorf("scaled: %v", v)
	}
	q := plan(t, catalog.ImageSpec{Layout: "NHWC", Channels: 1, Invert: true}, catalog.Uint8, 2, 2, 1)
	dst = make([]byte, q.Size())
	if err := q.Into(dst, encodePNG(t, img)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dst, []byte{255, 191, 127, 0}) {
		t.Errorf("inverted: %v", dst)
	}
}

// The centre of a wide image is taken; shrinking averages.
func TestResizeCropsTheCentre(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 300, 100))
	for y := range 100 {
		for x := 100; x < 200; x++ {
			img.SetGray(x, y, color.Gray{200})
		}
	}
	p := plan(t, catalog.ImageSpec{Layout: "NCHW", Channels: 1, Resize: 10}, catalog.Uint8, 1, 10, 10)
	dst := make([]byte, p.Size())
	if err := p.Into(dst, encodePNG(t, img)); err != nil {
		t.Fatal(err)
	}
	if dst[55] != 200 || dst[0] < 150 {
		t.Errorf("centre %d, corner %d", dst[55], dst[0])
	}
}

// An image that happens to have the input's size is resized and cropped like
// any other: Resize asks for the centre, enlarged.
func TestResizeOfAnImageOfTheInputsSize(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	for y := 2; y < 6; y++ {
		for x := 2; x < 6; x++ {
			img.SetGray(x, y, color.Gray{90})
		}
	}
	p := plan(t, catalog.ImageSpec{Layout: "NCHW", Channels: 1, Resize: 16}, catalog.Uint8, 1, 8, 8)
	dst := make([]byte, p.Size())
	if err := p.Into(dst, encodePNG(t, img)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dst, bytes.Repeat([]byte{90}, 64)) {
		t.Errorf("%v, want the centre only", dst)
	}
}

// Shorter side as wanted already: the crop alone, pixel by pixel.
func TestCropAlone(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 6, 4))
	for i := range img.Pix {
		img.Pix[i] = byte(i)
	}
	p := plan(t, catalog.ImageSpec{Layout: "NHWC", Channels: 1, Resize: 4}, catalog.Uint8, 2, 2, 1)
	dst := make([]byte, p.Size())
	if err := p.Into(dst, encodePNG(t, img)); err != nil {
		t.Fatal(err)
	}
	if want := []byte{8, 9, 14, 15}; !bytes.Equal(dst, want) {
		t.Errorf("%v, want %v", dst, want)
	}
}

// Shrinking by two is the mean of its four pixels where they are alone.
func TestShrinkingCountsEveryPixel(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 64, 64))
	for i := range img.Pix {
		if (i%64+i/64)%2 == 0 { // a chess board: nearest would give 0 or 200
			img.Pix[i] = 200
		}
	}
	p := plan(t, catalog.ImageSpec{Layout: "NHWC", Channels: 1}, catalog.Uint8, 16, 16, 1)
	dst := make([]byte, p.Size())
	if err := p.Into(dst, encodePNG(t, img)); err != nil {
		t.Fatal(err)
	}
	for i, v := range dst {
		if v < 98 || v > 102 {
			t.Fatalf("pixel %d is %d, want about 100", i, v)
		}
	}
}

func TestJPEG(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	p := plan(t, catalog.ImageSpec{Layout: "NHWC", Channels: 3}, catalog.FP32, 8, 8, 3)
	dst := make([]byte, p.Size())
	if err := p.Into(dst, b.Bytes()); err != nil || floats(dst)[0] < 0.98 {
		t.Fatal(err, floats(dst)[0])
	}
}

func TestBadImages(t *testing.T) {
	p := plan(t, catalog.ImageSpec{Layout: "NCHW", Channels: 1}, catalog.FP32, 1, 2, 2)
	dst := make([]byte, p.Size())
	good := encodePNG(t, image.NewGray(image.Rect(0, 0, 9, 9)))
	huge := bytes.Clone(good)
	binary.BigEndian.PutUint32(huge[16:], 1<<30) // the header's width
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("hello"), "cut": good[:len(good)/2], "huge": huge} {
		if err := p.Into(dst, b); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadSpecs(t *testing.T) {
	in := catalog.TensorSpec{Name: "in", Type: catalog.FP32, Shape: []int64{3, 8, 8}}
	ok := catalog.ImageSpec{Layout: "NCHW", Channels: 3}
	for name, change := range map[string]func(*catalog.ImageSpec, *catalog.TensorSpec){
		"channels": func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Channels = 2 },
		"layout":   func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Layout = "CHWN" },
		"order":    func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Layout = "NHWC" },
		"mean":     func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Mean = []float64{1} },
		"std":      func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Std = []float64{1, 0, 1} },
		"resize":   func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Resize = 7 },
		"negative": func(s *catalog.ImageSpec, _ *catalog.TensorSpec) { s.Resize = -8 },
		"type":     func(_ *catalog.ImageSpec, i *catalog.TensorSpec) { i.Type = catalog.Int64 },
		"shape":    func(_ *catalog.ImageSpec, i *catalog.TensorSpec) { i.Shape = []int64{64} },
		"uint8":    func(s *catalog.ImageSpec, i *catalog.TensorSpec) { i.Type = catalog.Uint8; s.Scale = 2 },
	} {
		s, i := ok, in
		change(&s, &i)
		if _, err := NewPlan(s, i); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkInto(b *testing.B) {
	p := plan(b, catalog.ImageSpec{Layout: "NCHW", Channels: 1}, catalog.FP32, 1, 8, 8)
	dst, png := make([]byte, p.Size()), encodePNG(b, image.NewGray(image.Rect(0, 0, 8, 8)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Into(dst, png); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPhoto(b *testing.B) {
	p := plan(b, catalog.ImageSpec{Layout: "NCHW", Channels: 3, Resize: 256}, catalog.FP32, 3, 224, 224)
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, image.NewRGBA(image.Rect(0, 0, 640, 480)), nil); err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, p.Size())
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Into(dst, photo.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
