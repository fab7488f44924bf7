package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// integrity is the SHA-512 of onnxruntime-node-1.30.0.tgz, as the registry
// publishes it.
const integrity = "sha512-twhs1C2C/BFkz1yc5OY0KIU2GUq6DURO7hD4bx5Q2Qy3nAMJwRXW8xU3NVczE29VA9lolLOYepoD8fjTGOfIqw=="

// sizeMax bounds the download.
const sizeMax = 512 << 20

type fetcher struct {
	registry  string
	integrity string
	member    string // the library's path in the archive
}

// registry is where npm packages come from on this machine.
func registry() string {
	if r := os.Getenv("NPM_CONFIG_REGISTRY"); r != "" {
		return strings.TrimSuffix(r, "/")
	}
	if out, err := exec.Command("npm", "config", "get", "registry").Output(); err == nil {
		if r := strings.TrimSpace(string(out)); strings.HasPrefix(r, "http") {
			return strings.TrimSuffix(r, "/")
		}
	}
	return "https://registry.npmjs.org"
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

// fetch downloads, checks, unpacks, and renames into place.
func (f fetcher) fetch(path string) error {
	archive, err := f.download()
	if err != nil {
		return err
	}
	sum := sha512.Sum512(archive)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != f.integrity {
		return fmt.Errorf("the archive's checksum is %s, %s is pinned: it is damaged or was replaced", got, f.integrity)
	}
	size, err := f.extract(archive, path+".part")
	if err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	return os.WriteFile(path+".stamp", []byte(f.stamp(size)), 0o644)
}

func (f fetcher) download() ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Minute}
	resp, err := client.Get(f.registry + "/onnxruntime-node/-/onnxruntime-node-" + version + ".tgz")
	if err != nil {
		return nil, fmt.Errorf("the registry cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the registry answers %s", resp.Status)
	}
	archive, err := io.ReadAll(io.LimitReader(&progress{r: resp.Body, total: resp.ContentLength}, sizeMax))
	fmt.Fprintln(os.Stderr)
	return archive, err
}

// extract writes the library out of the archive.
func (f fetcher) extract(archive []byte, path string) (int64, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
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

// progress prints how far the download is, at most five times a second.
type progress struct {
	r     io.Reader
	total int64
	read  int64
	last  time.Time
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	if time.Since(p.last) > 200*time.Millisecond {
		p.last = time.Now()
		fmt.Fprintf(os.Stderr, "\r  %.1f of %.1f MB", float64(p.read)/1e6, float64(p.total)/1e6)
	}
	return n, err
}
