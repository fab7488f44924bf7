package onnxfile

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	irVersion = 8
	opset     = 17         // the first with LayerNormalization
	sizeMax   = 1<<31 - 1  // of a protobuf message
	chunk     = 256 * 1024 // bytes encoded before they are written
)

// Model is a file to be.
type Model struct {
	Producer string
	Graph    *Graph
}

// ends are what stands before and after the graph.
func (m *Model) ends() (head, tail message) {
	head = message(nil).varint(modelIR, irVersion).text(modelProducer, m.Producer).opens(modelGraph, m.Graph.size())
	return head, message(nil).bytes(modelOpset, message(nil).text(opsetDomain, "").varint(opsetVersion, opset))
}

// Size is the file's bytes.
func (m *Model) Size() int64 {
	head, tail := m.ends()
	return int64(len(head)) + m.Graph.size() + int64(len(tail))
}

// WriteTo implements io.WriterTo.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	if n := m.Size(); n > sizeMax {
		return 0, fmt.Errorf("the model would have %d bytes, and a file of ONNX at most %d", n, int64(sizeMax))
	}
	head, tail := m.ends()
	e := encoder{w: w}
	e.write(head)
	for _, p := range m.Graph.parts {
		e.write(p.head)
		e.constant(p)
	}
	e.write(tail)
	return e.written, e.err
}

// Sum is the SHA-256 of what WriteTo writes.
func (m *Model) Sum() (string, error) {
	h := sha256.New()
	_, err := m.WriteTo(h)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Save writes the model beside the path and renames it there, so that a server that
// starts meanwhile never reads half of it. want is the SHA-256 that it must have, or
// empty; another one is a *SumError, and nothing is written.
func (m *Model) Save(path, want string) (sum string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".model-*")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, h), chunk)
	_, err = m.WriteTo(w)
	err = errors.Join(err, w.Flush(), f.Chmod(0o644), f.Close())
	sum = hex.EncodeToString(h.Sum(nil))
	if err == nil && want != "" && sum != want {
		err = &SumError{Got: sum, Want: want}
	} else if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return sum, fmt.Errorf("writing %s: %w", path, err)
	}
	return sum, nil
}

// SumError: what was made is not what was pinned.
type SumError struct{ Got, Want string }

// Error says both sums.
func (e *SumError) Error() string {
	return fmt.Sprintf("made a model with SHA-256 %s, pinned is %s", e.Got, e.Want)
}

// SumFile is the SHA-256 of a file.
func SumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// encoder writes pieces and remembers the first error.
type encoder struct {
	w       io.Writer
	buf     []byte
	written int64
	err     error
}

func (e *encoder) write(b []byte) {
	if e.err != nil {
		return
	}
	n, err := e.w.Write(b)
	e.written, e.err = e.written+int64(n), err
}

// constant writes a part's values, and checks that there are as many as its dimensions say.
func (e *encoder) constant(p part) {
	if p.values == nil {
		return
	}
	count := int64(0)
	p.values(func(v []float32) {
		if count += int64(len(v)); count > p.count {
			return
		}
		for _, x := range v {
			if e.buf = appendValue(e.buf, p.typ, x); len(e.buf) >= chunk {
				e.write(e.buf)
				e.buf = e.buf[:0]
			}
		}
	})
	e.write(e.buf)
	e.buf = e.buf[:0]
	if count != p.count && e.err == nil {
		e.err = fmt.Errorf("constant %s has %d values, and its dimensions %d", p.name, count, p.count)
	}
}
