package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/symphony-serving/symphony/cmd/internal/fetch"
)

// integrity is the SHA-512 of onnxruntime-node-1.30.0.tgz, as the registry
// publishes it.
const integrity = "sha512-twhs1C2C/BFkz1yc5OY0KIU2GUq6DURO7hD4bx5Q2Qy3nAMJwRXW8xU3NVczE29VA9lolLOYepoD8fjTGOfIqw=="

type fetcher struct {
	registry  string
	integrity string
	member    string // the library's path in the archive
}

// registry is where npm packages come from on this machine.
func registry() string {
	return fetch.Registry("NPM_CONFIG_REGISTRY", []string{"npm", "config", "get", "registry"}, "https://registry.npmjs.org")
}

// present reports whether the library is there, from this very archive: beside
// it lies a stamp with the archive's integrity and the file's size.
func (f fetcher) present(path string) bool {
	info, err := os.Stat(path)
	stamp, errStamp := os.ReadFile(path + ".stamp")
	return err == nil && errStamp == nil && string(stamp) == f.stamp(info.Size())
}

func (f fetcher) stamp(size int64) string {
	return fmt.Sprintf("%s %s %d\n", f.integrity, f.member, size)
}

// fetch downloads, checks, unpacks, and renames into place. Interrupted, it goes on
// from what it has of the archive when it is called again.
func (f fetcher) fetch(path string) error {
	archive := path + "-" + version + ".tgz" // of another version nothing is gone on from
	g := fetch.Getter{Progress: fetch.NewProgress(os.Stderr)}
	url := f.registry + "/onnxruntime-node/-/onnxruntime-node-" + version + ".tgz"
	if err := g.Get(context.Background(), fetch.File{URL: url, Path: archive, Sum: f.integrity}); err != nil {
		return err
	}
	size, err := f.extract(archive, path+".part")
	if err := errors.Join(err, os.Remove(archive)); err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	return os.WriteFile(path+".stamp", []byte(f.stamp(size)), 0o644)
}

// extract writes the library out of the archive.
func (f fetcher) extract(archive, path string) (int64, error) {
	in, err := os.Open(archive)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		return 0, err
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("the archive has no %s", f.member)
		}
		if err != nil {
			return 0, err
		}
		if h.Name != f.member {
			continue
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(out, t)
		return n, errors.Join(err, out.Close())
	}
}
