package shelf

import (
	"maps"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Files of warm-up inputs come with a version, from a folder and from an object store, and belong to
// its digest; what else lies there does neither.
func TestFetchWarmup(t *testing.T) {
	files := map[string]string{"config.yaml": "a", "1/model.onnx": "weights", "warmup/x.bin": "xx", "warmup/more/y.bin": "y"}
	all := maps.Clone(files)
	all["warmup.txt"], all["2/model.onnx"] = "no", "no"
	dir := put(t, t.TempDir(), all)
	want, size, err := DigestOf(dir, "1")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	for name, text := range all {
		objects["models/m/"+name] = text
	}
	for _, at := range []string{dir, "mem://store/models/m"} {
		s := open(t, Config{Buckets: memory(objects)})
		got, release := get(t, s, catalog.Source{Name: "m", Version: "1", URL: at, Digest: want, Bytes: size})
		if !maps.Equal(have(t, got), files) {
			t.Errorf("%s: %v", at, have(t, got))
		}
		release()
	}
	all["warmup/x.bin"] = "xy"
	if other, _, err := DigestOf(put(t, t.TempDir(), all), "1"); err != nil || other == want {
		t.Errorf("another file, and the same digest: %v", err)
	}
	if _, _, err := DigestOf(dir, "warmup"); err == nil {
		t.Error("warmup is a version")
	}
}
