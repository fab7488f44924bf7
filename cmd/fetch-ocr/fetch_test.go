package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// property is an entry of metadata_props, as ONNX files have it.
func property(key, value string) []byte {
	entry := binary.AppendUvarint(binary.AppendUvarint(nil, 1<<3|2), uint64(len(key)))
	entry = append(entry, key...)
	entry = binary.AppendUvarint(binary.AppendUvarint(entry, 2<<3|2), uint64(len(value)))
	entry = append(entry, value...)
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, 14<<3|2), uint64(len(entry))), entry...)
}

func letters() (out []string) {
	for i := range 6623 {
		out = append(out, string(rune(0x4e00+i)))
	}
	return out
}

// The alphabet is found behind other fields of all kinds, and a file that breaks off is refused.
func TestAlphabet(t *testing.T) {
	file := slices.Concat([]byte{1<<3 | 0, 0x88, 1}, []byte{3<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8}, []byte{4<<3 | 5, 1, 2, 3, 4}, []byte{7<<3 | 2, 3, 'a', 'b', 'c'},
		property("other", "x"), property("character", strings.Join(letters(), "\n")+"\n"))
	got, err := alphabet(file)
	if err != nil || len(got) != 6625 || got[0] != "blank" || got[1] != letters()[0] || got[6623] != letters()[6622] || got[6624] != " " {
		t.Fatalf("%d labels, %v", len(got), err)
	}
	for n := range len(file) {
		if n%97 != 0 && n > 64 {
			continue
		}
		if got, err := alphabet(file[:n]); err == nil {
			t.Fatalf("of %d of %d bytes: %d labels", n, len(file), len(got))
		}
	}
	if _, err := alphabet(property("character", "a\nb\n")); err == nil || !strings.Contains(err.Error(), "2 characters") {
		t.Errorf("another alphabet: %v", err)
	}
}

// A wheel becomes a repository that is known again; without one of its files it is refused.
func TestUnpack(t *testing.T) {
	write := func(names ...string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, n := range names {
			w, err := z.Create(n)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(property("character", strings.Join(letters(), "\n")))
		}
		z.Close()
		path := filepath.Join(t.TempDir(), wheel)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var names []string
	for _, m := range models() {
		names = append(names, m.member)
	}
	out := filepath.Join(t.TempDir(), "models")
	if err := unpack(write(names...), out); err != nil {
		t.Fatal(err)
	}
	if present(out) {
		t.Error("it is there before it is whole")
	}
	if err := os.WriteFile(stamp(out), []byte(stamped()), 0o644); err != nil || !present(out) {
		t.Errorf("it is not known again: %v", err)
	}
	config, err := os.ReadFile(filepath.Join(out, "ppocr-rec", "config.yaml"))
	if err != nil || !strings.Contains(string(config), "shape: [40, 6625]") || !strings.Contains(string(config), `labels: ["blank","一",`) {
		t.Errorf("%v: %.300s", err, config)
	}
	if os.Remove(filepath.Join(out, "ppocr-cls", "1", "model.onnx")); present(out) {
		t.Error("it is there without a model")
	}
	if err := unpack(write(names[1:]...), t.TempDir()); err == nil || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("a wheel without a model: %v", err)
	}
}
