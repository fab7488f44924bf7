package parts

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/invariants"
)

const imageModel = `platform: emulated
slo: 50ms
max_batch: 8
inputs: [{name: x, type: FP32, shape: [3, 224, 224]}]
outputs: [{name: y, type: FP32, shape: [4]}]
image: {layout: NCHW, channels: 3, resize: 256}
profile: {alpha_ms: 0.1, beta_ms: 1}
`

// imageRepository has one model m, which takes images.
func imageRepository(t *testing.T) string {
	t.Helper()
	models := t.TempDir()
	if err := os.Mkdir(filepath.Join(models, "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(models, "m", "config.yaml"), []byte(imageModel), 0o644); err != nil {
		t.Fatal(err)
	}
	return models
}

// bomb is the start of a PNG of 8,192 x 8,192 pixels of 8 bytes.
func bomb() []byte {
	head := binary.BigEndian.AppendUint32([]byte("IHDR\x00\x00\x20\x00\x00\x00\x20\x00\x10\x06\x00\x00\x00"), 0)[:17]
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(head))
	return append(b, make([]byte, 500_000)...)
}

// photo is a JPEG of 12 megapixels as cameras make them; of 3 under the race detector, which
// decodes ten times slower.
func photo(t *testing.T) []byte {
	size := image.Rect(0, 0, 4000, 3000)
	if invariants.Enabled {
		size = image.Rect(0, 0, 2000, 1500)
	}
	img := image.NewYCbCr(size, image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = byte(i>>6) + byte(i*i>>9)&7
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A whole system under image bombs and photos at eight workers: each answer says what is
// the matter, and memory stays.
func TestImagesOverHTTP(t *testing.T) {
	models := imageRepository(t)
	p := process(t, config.Set{Key: "frontend.preprocess", Value: "8"}, config.Set{Key: "backend.repository", Value: models},
		config.Set{Key: "scheduler.listen", Value: "inproc:images"}, config.Set{Key: "frontend.scheduler", Value: "inproc:images"},
		config.Set{Key: "backend.scheduler", Value: "inproc:images"}, config.Set{Key: "frontend.listen", Value: "inproc:images-frontend"})
	p.cfg.Backend.Pools = []config.Pool{{DeviceType: "cpu", Kind: "emulated", Devices: 1}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := p.Serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Drain(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Client.WaitReady(ctx, "m"); err != nil {
		t.Fatal(err)
	}
	url, large, small := "http://"+s.Web.Address+"/v1/classify/m", string(photo(t)), string(bomb())
	debug.FreeOSMemory()
	idle := resident(t)
	ask(t, "POST", url, small, 400, "an image of 8192x8192 is 67.1 megapixels, at most 16.8 megapixels are taken (frontend.image_pixels): send a smaller one")
	ask(t, "POST", url+"?timeout_ms=20", large, 503, "its image")
	ask(t, "POST", url+"?timeout_ms=20", large, 503, "decoded")
	ask(t, "POST", url+"?timeout_ms=60000", large, 200, "label")

	var most int64
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				most = max(most, resident(t)-idle)
			}
		}
	}()
	rounds := 2
	if invariants.Enabled {
		rounds = 1
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range rounds {
				ask(t, "POST", url+"?timeout_ms=60000", large, 200, "label")
				for range 3 {
					ask(t, "POST", url, small, 400, "megapixels")
				}
			}
		})
	}
	wait.Wait()
	close(stop)
	<-ended
	t.Logf("%d MB resident above idle", most/1e6)
	if most > 100e6 && !invariants.Enabled { // the race detector has memory of its own
		t.Errorf("%d MB resident above idle", most/1e6)
	}
}

// resident is the process's resident memory.
func resident(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
