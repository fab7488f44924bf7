package frontend

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// bomb is the start of a PNG of 16 bit a channel that unpacks to 8 bytes a pixel.
func bomb(side int) []byte {
	chunk := func(b []byte, name string, data []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
		b = append(append(b, name...), data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[len(b)-len(data)-4:]))
	}
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(side)), uint32(side))
	b := chunk([]byte("\x89PNG\r\n\x1a\n"), "IHDR", append(size, 16, 6, 0, 0, 0))
	return chunk(b, "IDAT", make([]byte, 1000))
}

// photoSize is 12 megapixels; 3 under the race detector, which decodes ten times slower.
func photoSize() image.Point {
	if raceEnabled {
		return image.Pt(2000, 1500)
	}
	return image.Pt(4000, 3000)
}

// photo is a JPEG as cameras make them.
var photo = sync.OnceValue(func() []byte {
	img := image.NewYCbCr(image.Rectangle{Max: photoSize()}, image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = byte(i>>6) + byte(i*i>>9)&7
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
})

// What is too large is refused by its header, with the limit and its key, before any of it
// is decoded or kept.
func TestImageBomb(t *testing.T) {
	client := newCluster(t).dial(nil)
	for _, c := range []struct {
		side int
		want string
	}{
		{8192, "an image of 8192x8192 is 67.1 megapixels, at most 16.8 megapixels are taken (frontend.image_pixels): send a smaller one"},
		{4000, "a PNG of 4000x4000 takes 128 MB to decode, there are at most 44 MB for one image (7/8 of frontend.image_memory): send a smaller one"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := client.Infer(context.Background(), Request{Model: "image", Image: bomb(c.side)})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrBadInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v; want %q", c.side, err, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%d: %d bytes for a refusal", c.side, took)
		}
	}
	if client.waiting.Load() != 0 {
		t.Errorf("%d bytes wait", client.waiting.Load())
	}
}

// A photo is served where its deadline allows. Where it does not, the answer says that
// decoding was in the way; and once that is known, nothing is begun in vain.
func TestPhoto(t *testing.T) {
	client, size := newCluster(t).dial(nil), fmt.Sprintf("%dx%d pixels", photoSize().X, photoSize().Y)
	ask := func(timeout time.Duration) error {
		_, err := client.Infer(context.Background(), Request{Model: "image", Image: photo(), Timeout: timeout})
		return err
	}
	client.times.perPixel[preprocess.JPEG].Store(math.Float64bits(1e-3)) // so it is tried, whatever this machine
	before := client.times.each(preprocess.JPEG)
	if err := ask(60 * time.Millisecond); !errors.Is(err, ErrDeadlineExceeded) || !strings.Contains(err.Error(), "its image of "+size+" was not decoded in time: send a smaller one, or a longer timeout") {
		t.Errorf("while it was decoded: %v", err)
	}
	for end := time.Now().Add(60 * time.Second); client.times.each(preprocess.JPEG) <= before; time.Sleep(10 * time.Millisecond) {
		if client.waiting.Load() == 0 { // it was not begun: its deadline was over when its turn came
			_ = ask(60 * time.Millisecond)
		}
		if time.Now().After(end) {
			t.Fatal("nothing is learnt of photos that were decoded too late")
		}
	}
	err := ask(time.Millisecond)
	var e *Error
	if !errors.As(err, &e) || e.Reason != wire.ReasonDeadline || !strings.Contains(err.Error(), "its image was not decoded: "+size+" take about") {
		t.Errorf("not begun: %v", err)
	}
	if err := ask(time.Minute); err != nil {
		t.Errorf("with time: %v", err)
	}
}

// What was learnt in a slow moment is not believed for ever; and small images are neither
// learnt from nor refused.
func TestImageTimesAreDoubted(t *testing.T) {
	var times imageTimes
	large, small := preprocess.Header{Width: 4000, Height: 3000, Format: preprocess.JPEG}, preprocess.Header{Width: 100, Height: 100, Format: preprocess.JPEG}
	times.took(&small, mono.Second)
	if times.of(&large) > 100*mono.Millisecond || times.of(&small) != 0 {
		t.Errorf("after a slow small image: %v, %v", times.of(&large), times.of(&small))
	}
	times.took(&large, mono.Second)
	refused := 0
	for ; times.of(&large) > 100*mono.Millisecond && refused < 1000; refused++ {
		times.refused(&large)
	}
	if refused < 50 || refused > 500 {
		t.Errorf("tried again after %d", refused)
	}
	times.took(&large, 200*mono.Millisecond)
	if got := times.of(&large); got < 110*mono.Millisecond || got > 200*mono.Millisecond {
		t.Errorf("learnt %v", got)
	}
}

// Photos and bombs at eight workers take no more memory than they are given, and small
// images beside them are answered.
func TestImageMemory(t *testing.T) {
	client := newCluster(t).dial(func(o *Options) { o.PreprocessConcurrency = 8 })
	small := grey(t, 8)
	photo()
	debug.FreeOSMemory()
	before := resident(t)
	stop, ended := make(chan struct{}), make(chan struct{})
	var most, mostMemory int64
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				client.memory.mu.Lock()
				mostMemory = max(mostMemory, client.memory.live+client.memory.dead)
				client.memory.mu.Unlock()
				most = max(most, resident(t)-before)
			}
		}
	}()
	photos := 24
	if raceEnabled {
		photos = 6
	}
	var wait sync.WaitGroup
	gate := make(chan struct{}, 8)
	for range photos {
		wait.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if _, err := client.Infer(context.Background(), Request{Model: "image", Image: photo(), Timeout: time.Minute}); err != nil {
				t.Errorf("photo: %v", err)
			}
			for range 5 {
				_, _ = client.Infer(context.Background(), Request{Model: "image", Image: bomb(8192)})
			}
			if _, err := client.Infer(context.Background(), Request{Model: "image", Image: small, Timeout: time.Minute}); err != nil {
				t.Errorf("small image: %v", err)
			}
		})
	}
	wait.Wait()
	close(stop)
	<-ended
	t.Logf("%d photos: at most %d MB for decoding, %d MB resident above idle", photos, mostMemory/1e6, most/1e6)
	if mostMemory > client.o.ImageMemory {
		t.Errorf("%d bytes for decoding, limit %d", mostMemory, client.o.ImageMemory)
	}
	if most > 100e6 && !raceEnabled {
		t.Errorf("%d MB resident above idle", most/1e6)
	}
}

// resident is the process's resident memory.
func resident(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	fields := strings.Fields(string(b))
	pages := int64(0)
	for _, digit := range fields[1] {
		pages = pages*10 + int64(digit-'0')
	}
	return pages * int64(os.Getpagesize())
}
