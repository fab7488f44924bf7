package preprocess

import (
	"image"
	"image/color"
	"math"

	"golang.org/x/image/draw"
)

// scale resizes src's part to dst, which begins at 0,0. The kernel is bilinear, widened
// when shrinking so that every source pixel counts: that of x/image/draw, which keeps all
// source rows, scaled across, at 32 bytes a pixel: more than a photo takes decoded. Here
// the rows pass by, and only those stay that dst's row in work needs.
//
// (Catmull-Rom rings at the edges of strokes, nearest and ApproxBiLinear skip pixels when
// they shrink.) Transparent parts count as black.
func scale(dst draw.RGBA64Image, src image.Image, part image.Rectangle) {
	size := dst.Bounds().Size()
	across, down := newTaps(size.X, part.Dx()), newTaps(size.Y, part.Dy())
	kept := make([][]rgb, widest(down)) // source row i in i%len
	for i := range kept {
		kept[i] = make([]rgb, size.X)
	}
	pixels, sums := make([]rgb, part.Dx()), make([]rgb, size.X)
	next := 0 // of the source's rows
	for y := range down {
		tap := &down[y]
		for ; next < tap.from+len(tap.weights); next++ {
			readRow(pixels, src, part.Min.X, part.Min.Y+next)
			shrinkRow(kept[next%len(kept)], pixels, across)
		}
		clear(sums)
		for i, weight := range tap.weights {
			for x, p := range kept[(tap.from+i)%len(kept)] {
				s := &sums[x]
				s[0] += p[0] * weight
				s[1] += p[1] * weight
				s[2] += p[2] * weight
			}
		}
		for x, s := range sums {
			dst.SetRGBA64(x, y, color.RGBA64{R: level(s[0]), G: level(s[1]), B: level(s[2]), A: 0xffff})
		}
	}
}

// rgb is a pixel, 0 to 65535 each, darkened by its transparency.
type rgb [3]float64

func level(v float64) uint16 { return uint16(min(v+0.5, 0xffff)) }

// tap says of which source pixels a pixel is made; the weights sum to 1.
type tap struct {
	from    int
	weights []float64
}

// newTaps makes the taps of one direction, from n source pixels to size.
func newTaps(size, n int) []tap {
	taps := make([]tap, size)
	ratio := float64(n) / float64(size)
	reach := max(ratio, 1)
	weights := make([]float64, 0, int(2*reach+2)*size)
	for x := range taps {
		centre := (float64(x)+0.5)*ratio - 0.5
		from, sum, first := -1, 0.0, len(weights)
		for i := max(int(math.Floor(centre-reach)), 0); i < min(int(math.Ceil(centre+reach)), n); i++ {
			w := 1 - math.Abs(centre-float64(i))/reach
			if w <= 0 {
				continue
			}
			if from < 0 {
				from = i
			}
			sum += w
			weights = append(weights, w)
		}
		own := weights[first:]
		for i := range own {
			own[i] /= sum
		}
		taps[x] = tap{from, own}
	}
	return taps
}

// widest is the most source pixels that one tap needs.
func widest(taps []tap) int {
	most := 1
	for _, t := range taps {
		most = max(most, len(t.weights))
	}
	return most
}

// scaling is the bytes that scale takes for a part of this size.
func (p *Plan) scaling(width, height int64) int64 {
	const pixel, weight = 24, 16 // bytes of an rgb; of a weight, for each source pixel's two
	ratio := max(height/int64(p.height), 1)
	return int64(p.width)*int64(p.height)*4 + (2*ratio+3)*int64(p.width)*pixel + (width+height+int64(p.width+p.height))*(pixel+weight)
}

func shrinkRow(dst, src []rgb, taps []tap) {
	for x := range dst {
		t := &taps[x]
		var s rgb
		for i, p := range src[t.from : t.from+len(t.weights)] {
			w := t.weights[i]
			s[0] += p[0] * w
			s[1] += p[1] * w
			s[2] += p[2] * w
		}
		dst[x] = s
	}
}

// readRow converts a row from x on, with loops of their own for what decoders make most.
func readRow(dst []rgb, img image.Image, x, y int) {
	switch img := img.(type) {
	case *image.Gray:
		for i, v := range img.Pix[img.PixOffset(x, y):][:len(dst)] {
			f := float64(v) * 0x101
			dst[i] = rgb{f, f, f}
		}
	case *image.RGBA:
		pix := img.Pix[img.PixOffset(x, y):][:4*len(dst)]
		for i := range dst {
			dst[i] = rgb{float64(pix[4*i]) * 0x101, float64(pix[4*i+1]) * 0x101, float64(pix[4*i+2]) * 0x101}
		}
	case *image.YCbCr:
		readYCbCr(dst, img, x, y)
	case image.RGBA64Image:
		for i := range dst {
			c := img.RGBA64At(x+i, y)
			dst[i] = rgb{float64(c.R), float64(c.G), float64(c.B)}
		}
	default:
		for i := range dst {
			r, g, b, _ := img.At(x+i, y).RGBA()
			dst[i] = rgb{float64(r), float64(g), float64(b)}
		}
	}
}

// readYCbCr is color.YCbCr's RGBA for a row: what photos are.
func readYCbCr(dst []rgb, img *image.YCbCr, x, y int) {
	shift := 0 // columns that share a chroma sample
	switch img.SubsampleRatio {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		shift = 1
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		shift = 2
	}
	luma, chroma := img.Y[img.YOffset(x, y):][:len(dst)], img.COffset(x, y)-x>>shift
	clamp := func(v int32) float64 { return float64(min(max(v>>8, 0), 0xffff)) }
	for i := range dst {
		at := chroma + (x+i)>>shift
		yy, cb, cr := int32(luma[i])*0x10101, int32(img.Cb[at])-128, int32(img.Cr[at])-128
		dst[i] = rgb{clamp(yy + 91881*cr), clamp(yy - 22554*cb - 46802*cr), clamp(yy + 116130*cb)}
	}
}
