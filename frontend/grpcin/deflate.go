package grpcin

import (
	"compress/zlib"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

// grpc-go knows gzip alone; clients on gRPC's core (C++, Python) also have deflate, which is zlib's
// format. Compressors are the process's: gRPC takes them while it is initialised and at no other time.
func init() { encoding.RegisterCompressor(new(deflate)) }

// deflate implements encoding.Compressor. What a message decompresses to grpc-go bounds itself
// (MaxRecvMsgSize).
type deflate struct{ writers, readers sync.Pool }

// Name implements encoding.Compressor.
func (*deflate) Name() string { return "deflate" }

// Compress implements encoding.Compressor.
func (d *deflate) Compress(w io.Writer) (io.WriteCloser, error) {
	z, ok := d.writers.Get().(*zlib.Writer)
	if !ok {
		z = zlib.NewWriter(w)
	} else {
		z.Reset(w)
	}
	return &deflater{z, d}, nil
}

type deflater struct {
	*zlib.Writer
	of *deflate
}

// Close implements io.WriteCloser.
func (z *deflater) Close() error {
	defer z.of.writers.Put(z.Writer)
	return z.Writer.Close()
}

// Decompress implements encoding.Compressor.
func (d *deflate) Decompress(r io.Reader) (io.Reader, error) {
	z, ok := d.readers.Get().(io.ReadCloser)
	if !ok {
		z, err := zlib.NewReader(r)
		return &inflater{z, d}, err
	}
	if err := z.(zlib.Resetter).Reset(r, nil); err != nil {
		d.readers.Put(z)
		return nil, err
	}
	return &inflater{z, d}, nil
}

// inflater goes back to the pool at its end.
type inflater struct {
	io.Reader
	of *deflate
}

// Read implements io.Reader.
func (z *inflater) Read(b []byte) (int, error) {
	n, err := z.Reader.Read(b)
	if err == io.EOF && z.of != nil {
		z.of.readers.Put(z.Reader)
		z.of = nil
	}
	return n, err
}
