package preprocess

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"testing"

	"golang.org/x/image/draw"
)

// kinds are images of all kinds that the decoders make, of noise.
func kinds(rng *rand.Rand, r image.Rectangle) map[string]image.Image {
	noise := func(pix []byte) {
		for i := range pix {
			pix[i] = byte(rng.Uint32())
		}
	}
	grey, grey16, nrgba, nrgba64, rgba := image.NewGray(r), image.NewGray16(r), image.NewNRGBA(r), image.NewNRGBA64(r), image.NewRGBA(r)
	palette := image.NewPaletted(r, color.Palette{color.Black, color.White, color.RGBA{255, 0, 0, 255}, color.RGBA{0, 80, 90, 255}})
	cmyk := image.NewCMYK(r)
	for _, pix := range [][]byte{grey.Pix, grey16.Pix, nrgba.Pix, nrgba64.Pix, rgba.Pix, palette.Pix, cmyk.Pix} {
		noise(pix)
	}
	for i := range palette.Pix {
		palette.Pix[i] %= 4
	}
	for i := 3; i < len(rgba.Pix); i += 4 {
		rgba.Pix[i] = 255
	}
	out := map[string]image.Image{"grey": grey, "grey16": grey16, "nrgba": nrgba, "nrgba64": nrgba64, "rgba": rgba, "palette": palette, "cmyk": cmyk}
	for _, ratio := range []image.YCbCrSubsampleRatio{image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio420, image.YCbCrSubsampleRatio411} {
		img := image.NewYCbCr(r, ratio)
		noise(img.Y)
		noise(img.Cb)
		noise(img.Cr)
		out[ratio.String()] = img
	}
	return out
}

// Scaling row by row makes the pixels that x/image/draw makes of whole images.
func TestScaleIsBiLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []image.Point{{97, 61}, {7, 120}, {200, 5}} {
		src := image.Rect(0, 0, size.X, size.Y)
		parts := []image.Rectangle{src, src.Inset(min(size.X, size.Y) / 3)}
		for name, img := range kinds(rng, src) {
			for _, part := range parts {
				for _, to := range []image.Rectangle{image.Rect(0, 0, 16, 16), image.Rect(0, 0, 31, 7), image.Rect(0, 0, 60, 45)} {
					for _, dst := range [][2]draw.RGBA64Image{{image.NewRGBA(to), image.NewRGBA(to)}, {image.NewGray(to), image.NewGray(to)}} {
						scale(dst[0], img, part)
						draw.BiLinear.Scale(dst[1], to, img, part, draw.Src, nil)
						if at, ok := same(dst[0], dst[1]); !ok {
							t.Fatalf("%s %v of %v to %v, pixel %v: %v, want %v", name, part, size, to.Max, at, dst[0].At(at.X, at.Y), dst[1].At(at.X, at.Y))
						}
					}
				}
			}
		}
	}
}

// same compares colours, to one level of 256.
func same(a, b image.Image) (image.Point, bool) {
	apart := func(x, y uint32) bool { return max(x, y)-min(x, y) > 0x101 }
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r, g, bl, _ := a.At(x, y).RGBA()
			wr, wg, wb, _ := b.At(x, y).RGBA()
			if apart(r, wr) || apart(g, wg) || apart(bl, wb) {
				return image.Pt(x, y), false
			}
		}
	}
	return image.Point{}, true
}

func BenchmarkPhoto12MP(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	photo := image.NewYCbCr(image.Rect(0, 0, 4000, 3000), image.YCbCrSubsampleRatio420)
	for i := range photo.Y {
		photo.Y[i] = byte(i>>6) + byte(rng.Uint32()&15)
	}
	var encoded bytes.Buffer
	if err := jpeg.Encode(&encoded, photo, nil); err != nil {
		b.Fatal(err)
	}
	p := plan(b, imageSpec(), "FP32", 3, 224, 224)
	dst := make([]byte, p.Size())
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Into(dst, encoded.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
