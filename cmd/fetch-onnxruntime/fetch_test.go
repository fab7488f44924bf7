package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive is a package with one file.
func archive(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte(text))
	w.Close()
	z.Close()
	return b.Bytes()
}

func integrityOf(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func TestFetch(t *testing.T) {
	good := archive(t, "package/lib.so", "the library")
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if !strings.HasSuffix(r.URL.Path, ".tgz") {
			http.NotFound(w, r)
			return
		}
		w.Write(good)
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "lib.so")
	f := fetcher{registry: s.URL, integrity: integrityOf(good), member: "package/lib.so"}
	if f.present(path) {
		t.Fatal("present before it was fetched")
	}
	if err := f.fetch(path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "the library" || !f.present(path) {
		t.Errorf("%q, %v, present %v", text, err, f.present(path))
	}
	newer := f
	newer.integrity = "another"
	if newer.present(path) {
		t.Error("a file of another archive counts as present")
	}
	if err := os.WriteFile(path, []byte("cut"), 0o644); err != nil || f.present(path) {
		t.Error("a damaged file counts as present")
	}
}

func TestFetchFails(t *testing.T) {
	good := archive(t, "package/lib.so", "x")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(good) }))
	defer s.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	dir := t.TempDir()
	for want, f := range map[string]fetcher{
		"checksum":          {s.URL, "sha512-wrong", "package/lib.so"},
		"has no":            {s.URL, integrityOf(good), "package/other.so"},
		"404":               {missing.URL, integrityOf(good), "package/lib.so"},
		"cannot be reached": {"http://127.0.0.1:1", integrityOf(good), "package/lib.so"},
	} {
		path := filepath.Join(dir, "lib.so")
		if err := f.fetch(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if f.present(path) {
			t.Errorf("%s: present after a failure", want)
		}
	}
}
