// Package preprocess turns what users have (PNG and JPEG images) into what
// models take (tensors), straight into the slab: decode, resize, crop, scale,
// normalise, lay out, as catalog.ImageSpec says.
//
// A core: no goroutine, no clock. It runs on the frontend's cores while the
// request's deferral would be waiting anyway (Symphony, section 4.3).
package preprocess

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // decoder
	_ "image/png"  // decoder
	"math"

	"golang.org/x/image/draw"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// ErrImage is the cause of every refused image.
var ErrImage = errors.New("bad image")

// ErrSpec is the cause of every refused specification.
var ErrSpec = errors.New("bad image specification")

// Plan is a checked specification for one model's input.
type Plan struct {
	spec          catalog.ImageSpec
	float         bool
	width, height int
	scale         float32
	mean, std     [3]float32
}

// NewPlan checks that spec fits the input: 3 dimensions in the layout's
// order, FP32 or UINT8.
func NewPlan(spec catalog.ImageSpec, in catalog.TensorSpec) (*Plan, error) {
	p := &Plan{spec: spec, float: in.Type == catalog.FP32, scale: 1.0 / 255, std: [3]float32{1, 1, 1}}
	if spec.Channels != 1 && spec.Channels != 3 {
		return nil, fmt.Errorf("%w: channels %d, must be 1 or 3", ErrSpec, spec.Channels)
	}
	if in.Type != catalog.FP32 && in.Type != catalog.Uint8 {
		return nil, fmt.Errorf("%w: input %s is %s, images become FP32 or UINT8", ErrSpec, in.Name, in.Type)
	}
	if err := p.setSize(in); err != nil {
		return nil, err
	}
	if spec.Resize != 0 && (spec.Resize < max(p.width, p.height) || spec.Resize > 1<<16) {
		return nil, fmt.Errorf("%w: resize %d, must be 0 or from the input's longer side, %d, to %d", ErrSpec, spec.Resize, max(p.width, p.height), 1<<16)
	}
	if spec.Scale != 0 {
		p.scale = float32(spec.Scale)
	}
	if !p.float && (spec.Scale != 0 || len(spec.Mean) > 0 || len(spec.Std) > 0) {
		return nil, fmt.Errorf("%w: scale, mean and std need an FP32 input", ErrSpec)
	}
	for name, list := range map[string][]float64{"mean": spec.Mean, "std": spec.Std} {
		if len(list) != 0 && len(list) != spec.Channels {
			return nil, fmt.Errorf("%w: %s has %d values for %d channels", ErrSpec, name, len(list), spec.Channels)
		}
	}
	for i, v := range spec.Mean {
		p.mean[i] = float32(v)
	}
	for i, v := range spec.Std {
		if v == 0 {
			return nil, fmt.Errorf("%w: std of channel %d is 0", ErrSpec, i)
		}
		p.std[i] = float32(v)
	}
	return p, nil
}

func (p *Plan) setSize(in catalog.TensorSpec) error {
	shape, c := in.Shape, int64(p.spec.Channels)
	switch {
	case len(shape) == 3 && p.spec.Layout == "NCHW" && shape[0] == c:
		p.height, p.width = int(shape[1]), int(shape[2])
	case len(shape) == 3 && p.spec.Layout == "NHWC" && shape[2] == c:
		p.height, p.width = int(shape[0]), int(shape[1])
	default:
		return fmt.Errorf("%w: input %s of shape %v does not fit layout %q with %d channels", ErrSpec, in.Name, shape, p.spec.Layout, c)
	}
	if p.width < 1 || p.height < 1 || p.width > 8192 || p.height > 8192 {
		return fmt.Errorf("%w: image of %dx%d, each side must be 1 to 8192", ErrSpec, p.width, p.height)
	}
	return nil
}

// Size is the bytes of the tensor.
func (p *Plan) Size() int {
	n := p.width * p.height * p.spec.Channels
	if p.float {
		n *= 4
	}
	return n
}

// Bytes is what Into takes for an image with this header. The caller bounds it: a small
// file may unpack to anything.
func (p *Plan) Bytes(h Header) int64 {
	part := p.part(image.Rect(0, 0, h.Width, h.Height))
	return h.Bytes + p.scaling(int64(part.Dx()), int64(part.Dy()))
}

// Into decodes an encoded image, whose header ReadHeader has accepted, and writes the
// tensor to dst, which has Size bytes.
func (p *Plan) Into(dst, encoded []byte) error {
	img, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrImage, err)
	}
	img, from := p.fit(img)
	p.write(dst, img, from)
	return nil
}

// fit resizes and crops to the input's size; the pixels begin at from.
func (p *Plan) fit(img image.Image) (_ image.Image, from image.Point) {
	src := p.part(img.Bounds())
	if src.Dx() == p.width && src.Dy() == p.height {
		return img, src.Min
	}
	var dst draw.RGBA64Image = image.NewRGBA(image.Rect(0, 0, p.width, p.height))
	if p.spec.Channels == 1 {
		dst = image.NewGray(image.Rect(0, 0, p.width, p.height))
	}
	scale(dst, img, src)
	return dst, image.Point{}
}

// part is what of an image the input shows: all of it, or, with Resize, the
// centre. Scaling the shorter side to Resize and then cropping is the same as
// scaling only that centre.
func (p *Plan) part(b image.Rectangle) image.Rectangle {
	if p.spec.Resize == 0 {
		return b
	}
	short := min(b.Dx(), b.Dy())
	share := func(n int) int { return min(max((n*short+p.spec.Resize/2)/p.spec.Resize, 1), short) }
	w, h := share(p.width), share(p.height)
	at := image.Pt(b.Min.X+(b.Dx()-w)/2, b.Min.Y+(b.Dy()-h)/2)
	return image.Rectangle{Min: at, Max: at.Add(image.Pt(w, h))}
}

// write lays the pixels out.
func (p *Plan) write(dst []byte, img image.Image, from image.Point) {
	channels, plane := p.spec.Channels, p.width*p.height
	for y := range p.height {
		for x := range p.width {
			values := pixel(img, from.X+x, from.Y+y, channels)
			for c := range channels {
				i := (y*p.width+x)*channels + c
				if p.spec.Layout == "NCHW" {
					i = c*plane + y*p.width + x
				}
				p.put(dst, i, c, values[c])
			}
		}
	}
}

// pixel reads the channels of one pixel, 0 to 255.
func pixel(img image.Image, x, y, channels int) [3]uint8 {
	switch img := img.(type) {
	case *image.Gray:
		v := img.GrayAt(x, y).Y
		return [3]uint8{v, v, v}
	case *image.RGBA:
		if channels == 3 {
			v := img.RGBAAt(x, y)
			return [3]uint8{v.R, v.G, v.B}
		}
	}
	if channels == 1 {
		return [3]uint8{color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y}
	}
	r, g, b, _ := img.At(x, y).RGBA()
	return [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
}

func (p *Plan) put(dst []byte, i, channel int, v uint8) {
	if p.spec.Invert {
		v = 255 - v
	}
	if !p.float {
		dst[i] = v
		return
	}
	f := (float32(v)*p.scale - p.mean[channel]) / p.std[channel]
	binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
}
