package preprocess

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

func imageSpec() catalog.ImageSpec {
	return catalog.ImageSpec{Layout: "NCHW", Channels: 3, Resize: 256}
}

// What the header says that decoding takes is what it takes: never less, and not much more.
func TestHeaderTellsTheBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	p := plan(t, imageSpec(), catalog.FP32, 3, 224, 224)
	encoded := map[string][]byte{}
	for name, img := range kinds(rng, image.Rect(0, 0, 350, 450)) {
		var asPNG, asJPEG bytes.Buffer
		if err := errors.Join(png.Encode(&asPNG, img), jpeg.Encode(&asJPEG, img, nil)); err != nil {
			t.Fatal(err)
		}
		encoded[name+" PNG"], encoded[name+" JPEG"] = asPNG.Bytes(), asJPEG.Bytes()
	}
	dst := make([]byte, p.Size())
	for name, b := range encoded {
		h, err := ReadHeader(b)
		if err != nil || h.Width != 350 || h.Height != 450 {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := p.Into(dst, b); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > p.Bytes(h)+1<<17 || took < p.Bytes(h)*2/3 { // tables, buffers
			t.Errorf("%s: %d bytes, its header says %d", name, took, p.Bytes(h))
		}
	}
}

// progressive is the start of a progressive JPEG of 16x16 pixels, 4:2:0.
const progressive = "\xff\xd8\xff\xc2\x00\x11\x08\x00\x10\x00\x10\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xff\xda\x00\x02"

func TestHeaders(t *testing.T) {
	grey := encodePNG(t, image.NewGray(image.Rect(0, 0, 9, 5)))
	wide := encodePNG(t, image.NewNRGBA64(image.Rect(0, 0, 9, 5)))
	h, err := ReadHeader(wide)
	if err != nil || h.Bytes != 9*5*8 || h.Format != PNG || h.Pixels() != 45 {
		t.Errorf("16 bit: %+v, %v", h, err)
	}
	huge := bytes.Clone(grey)
	binary.BigEndian.PutUint32(huge[16:], 1<<30)
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("hello"), "cut": grey[:20], "sum of the header": huge, "JPEG cut": []byte("\xff\xd8\xff\xe0\x00")} {
		if _, err := ReadHeader(b); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h, err = ReadHeader([]byte(progressive)); err != nil || h.Format != ProgressiveJPEG || h.Bytes != 5*(16*16+2*8*8) {
		t.Errorf("progressive: %+v, %v", h, err)
	}
}

// Whatever the bytes, the header is read without a panic, and has what the decoder sees.
func FuzzReadHeader(f *testing.F) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewRGBA(image.Rect(0, 0, 16, 16)), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(encodePNG(f, image.NewGray(image.Rect(0, 0, 9, 5))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := ReadHeader(b); err == nil && (h.Bytes < 0 || h.Pixels() < 1) {
			t.Errorf("%+v", h)
		}
	})
}
