package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/warmup"
)

// A model's warm-up inputs are read with its config.yaml, its files from below warmup/ in its
// folder and from nowhere else; a file that changes changes the model's print, and the inputs'.
func TestWarmup(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "m/config.yaml", good+"warmup:\n  inputs:\n    x: {file: warmup/x.bin}\n")
	put(t, dir, "m/1/model.onnx", "")
	put(t, dir, "m/warmup/x.bin", strings.Repeat("\x00\x00\x80\x3f", 64))
	models, failed, err := Load(dir)
	if err != nil || len(failed) > 0 || len(models) != 1 || models[0].Warmup == nil {
		t.Fatal(models, failed, err)
	}
	item := make([]byte, 256)
	models[0].Warmup.Fill(models[0].Spec.Inputs, 7, item)
	if string(item[:8]) != "\x00\x00\x80\x3f\x00\x00\x80\x3f" {
		t.Errorf("%v", item)
	}
	before := PrintOf(dir, "m")
	put(t, dir, "m/profiles/cpu-v1.json", "{}")
	if !PrintOf(dir, "m").Equal(before) {
		t.Error("a stored profile changes the model")
	}
	put(t, dir, "m/warmup/x.bin", strings.Repeat("\x00\x00\x00\x40", 128))
	if PrintOf(dir, "m").Equal(before) {
		t.Error("another file of warm-up inputs is not seen")
	}
	again, err := Read(filepath.Join(dir, "m"), "m", "1")
	if err != nil || again.Warmup.Print() == models[0].Warmup.Print() {
		t.Errorf("%v, with the print of other inputs", err)
	}
}

func TestWarmupIsRefused(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "secret.bin", "xxxx")
	put(t, dir, "m/x.bin", "xxxx")
	put(t, dir, "m/warmup/folder/x.bin", "xxxx")
	put(t, dir, "m/1/model.onnx", "")
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "m", "warmup", "out.bin")); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(filepath.Join(dir, "m", "warmup", "large.bin"))
	if err == nil {
		err = large.Truncate(warmup.FilesMax + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	large.Close()
	for setting, want := range map[string]string{
		"{inputs: {x: {file: ../secret.bin}}}":       "warmup.inputs.x: file ../secret.bin: it must lie below warmup/ in the model's folder",
		"{inputs: {x: {file: warmup/../x.bin}}}":     "must lie below warmup/",
		"{inputs: {x: {file: /etc/hostname}}}":       "must lie below warmup/",
		"{inputs: {x: {file: x.bin}}}":               "must lie below warmup/",
		"{inputs: {x: {file: warmup/none.bin}}}":     "there is no such file",
		"{inputs: {x: {file: warmup/folder}}}":       "no regular file",
		"{inputs: {x: {file: warmup/out.bin}}}":      "leads out of the repository",
		"{inputs: {x: {file: warmup/large.bin}}}":    "at most 67108864 bytes together",
		"{inputs: {x: {file: warmup/folder/x.bin}}}": "must have a multiple of 256",
		"{inputs: {y: {zeros: true}}}":               `"y" is no input of the model; it has [x]`,
		"{inputs: {x: {random: [0, 1], count: 3}}}":  "field count not found",
		"{input: {x: {zeros: true}}}":                "field input not found",
		"{}":                                         "warmup.inputs: is empty",
		"{inputs: {x: {random: 3}}}":                 "cannot unmarshal",
	} {
		put(t, dir, "m/config.yaml", good+"warmup: "+setting+"\n")
		models, failed, err := Load(dir)
		if err != nil || len(models) > 0 || len(failed) != 1 || !strings.Contains(failed[0].Error(), want) || !strings.Contains(failed[0].Error(), "config.yaml") {
			t.Errorf("%s: %q is missing in %v, %v", setting, want, failed, err)
		}
	}
	put(t, dir, "m/config.yaml", "platform: emulated\nslo: 25ms\nmax_batch: 4\nprofile: {alpha_ms: 1, beta_ms: 5}\nwarmup: {inputs: {x: {zeros: true}}}\n"+
		"inputs: [{name: x, type: FP32, shape: [1]}]\noutputs: [{name: y, type: FP32, shape: [1]}]\n")
	if _, failed, _ := Load(dir); len(failed) != 1 || !strings.Contains(failed[0].Error(), "an emulated model has no runs before its first request") {
		t.Errorf("%v", failed)
	}
}
