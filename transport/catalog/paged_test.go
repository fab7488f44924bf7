package catalog

import (
	"fmt"
	"testing"
)

// A model takes whole pages, and at least one; what is too large for any device is said to be.
func TestPagesOf(t *testing.T) {
	m := Paged{Page: 16 << 20, Pages: 640}
	for bytes, want := range map[int64]int{-1: 1, 0: 1, 1: 1, 16 << 20: 1, 16<<20 + 1: 2, 102 << 20: 7, 640 * 16 << 20: 640, 1 << 62: PagesMax + 1} {
		if got := m.PagesOf(&ModelSpec{WeightsBytes: bytes}); got != want {
			t.Errorf("%d bytes take %d pages, want %d", bytes, got, want)
		}
	}
}

// Memory that no device can have, and weights that are nowhere, are refused.
func TestDecodePaged(t *testing.T) {
	pool := func(rest string) string { return fmt.Sprintf(`{"name":"b","pools":[{"devices":1,%s}]}`, rest) }
	for _, text := range []string{
		pool(`"paged":{"page":0,"pages":5}`), pool(`"paged":{"page":5,"pages":0}`), pool(`"paged":{"page":5,"pages":16777217}`),
		pool(`"paged":{"page":5,"pages":-1}`), pool(`"paged":{"page":5,"pages":5,"workspace":-1}`), pool(`"paged":{"page":5,"pages":5,"io":-1}`),
		pool(`"held":[[{"key":"a/1","generation":1}]]`),
		pool(`"paged":{"page":5,"pages":5},"held":[[],[]]`),
		pool(`"paged":{"page":5,"pages":5},"held":[[{"key":"a/1"}]]`),
		pool(`"paged":{"page":5,"pages":5},"held":[[{"generation":1}]]`),
		pool(`"paged":{"page":5,"pages":5},"held":[[{"key":"a/1","generation":4294967296}]]`),
	} {
		if b, err := DecodeBackendInfo([]byte(text)); err == nil {
			t.Errorf("%s is taken: %+v", text, b)
		}
	}
	if _, err := DecodeHeld([]byte(`{"held":[{"key":"a/1"}]}`)); err == nil {
		t.Error("weights of no generation are taken")
	}
	if _, err := DecodeBackendInfo([]byte(pool(`"paged":{"page":5,"pages":5},"held":[[{"key":"a/1","generation":1}]]`))); err != nil {
		t.Error(err)
	}
}
