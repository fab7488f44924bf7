package ingress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/symphony-serving/symphony/frontend/ingress/oip"
)

// compressMin is the smallest reply that is compressed: below a packet's size
// it only costs time.
const compressMin = 1024

// decompressed is a body's reader and how to give back what it uses.
type decompressed struct {
	r       io.Reader
	release func()
}

// decompressor puts the reader for an encoding before the stream.
func (s *Server) decompressor(encoding []byte, stream io.Reader) (decompressed, error) {
	switch strings.ToLower(string(encoding)) {
	case "", "identity":
		return decompressed{stream, func() {}}, nil
	case "gzip", "x-gzip":
		z, ok := s.pools.gunzip.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		release := func() { s.pools.gunzip.Put(z) }
		if err := z.Reset(stream); err != nil {
			release()
			return decompressed{}, err
		}
		return decompressed{z, release}, nil
	case "deflate":
		return s.inflater(stream)
	}
	return decompressed{}, &refusal{status: 415, reason: "bad_request",
		msg: fmt.Sprintf("Content-Encoding %q is not supported: send gzip, deflate or none", encoding)}
}

// inflater reads zlib data, which "deflate" means, or the bare deflate that
// some clients send. Two bytes tell them apart: zlib's are a multiple of 31.
func (s *Server) inflater(stream io.Reader) (decompressed, error) {
	buffered := bufio.NewReader(stream)
	head, _ := buffered.Peek(2)
	if len(head) == 2 && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		z, ok := s.pools.zlib.Get().(io.ReadCloser)
		var err error
		if ok {
			err = z.(zlib.Resetter).Reset(buffered, nil)
		} else {
			z, err = zlib.NewReader(buffered)
		}
		if err != nil {
			return decompressed{}, err
		}
		return decompressed{&whole{z, buffered}, func() { s.pools.zlib.Put(z) }}, nil
	}
	z, ok := s.pools.inflate.Get().(io.ReadCloser)
	if !ok {
		z = flate.NewReader(buffered)
	} else if err := z.(flate.Resetter).Reset(buffered, nil); err != nil {
		return decompressed{}, err
	}
	return decompressed{&whole{z, buffered}, func() { s.pools.inflate.Put(z) }}, nil
}

// whole demands that the compressed data is all that the buffer had.
type whole struct {
	io.Reader
	buffered *bufio.Reader
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err == io.EOF && w.buffered.Buffered() > 0 {
		err = errTrailing
	}
	return n, err
}

// accepted is the encoding of the reply: gzip or deflate where the client
// takes it, else "".
func accepted(header []byte) string {
	best := ""
	for part := range bytes.SplitSeq(header, []byte{','}) {
		name, parameters, _ := bytes.Cut(part, []byte{';'})
		if q, ok := bytes.CutPrefix(bytes.TrimSpace(parameters), []byte("q=")); ok {
			if v, err := strconv.ParseFloat(string(q), 64); err != nil || v == 0 {
				continue
			}
		}
		switch string(bytes.ToLower(bytes.TrimSpace(name))) {
		case "gzip", "*":
			return "gzip"
		case "deflate":
			best = "deflate"
		}
	}
	return best
}

// send writes the reply's header and tensors, compressed if the client takes
// it and it pays. Otherwise they are made in the response's own memory.
func (s *Server) send(x *exchange) (err error) {
	response := &x.ctx.Response
	x.encoded = x.encoded[:0]
	body := response.SwapBody(x.encoded)[:0]
	if body, err = x.reply.AppendHeader(body); err != nil {
		x.encoded = body
		return err
	}
	header := len(body)
	size := header
	if x.reply.HasBinary() {
		for i := range x.reply.Outputs {
			size += x.reply.Outputs[i].Size()
		}
		response.Header.SetContentType("application/octet-stream")
		x.digits = strconv.AppendInt(x.digits[:0], int64(header), 10)
		response.Header.SetBytesV(headerLength, x.digits)
	} else {
		response.Header.SetContentType("application/json")
	}
	encoding := ""
	if size >= compressMin {
		encoding = accepted(x.ctx.Request.Header.Peek("Accept-Encoding"))
	}
	if encoding == "" {
		x.encoded = response.SwapBody(x.reply.AppendBinary(body))
		return nil
	}
	x.encoded = body
	response.Header.SetContentEncoding(encoding)
	z, release := s.compressor(encoding, response.BodyWriter())
	defer release()
	if _, err := z.Write(body); err != nil {
		return err
	}
	if err := writeTensors(z, &x.reply); err != nil {
		return err
	}
	return z.Close()
}

func writeTensors(w io.Writer, r *oip.Reply) error {
	for i := range r.Outputs {
		if !r.Outputs[i].Binary {
			continue
		}
		for _, part := range r.Outputs[i].Parts {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) compressor(encoding string, w io.Writer) (io.WriteCloser, func()) {
	if encoding == "gzip" {
		z, ok := s.pools.gzip.Get().(*gzip.Writer)
		if !ok {
			z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		}
		z.Reset(w)
		return z, func() { s.pools.gzip.Put(z) }
	}
	z, ok := s.pools.deflate.Get().(*zlib.Writer)
	if !ok {
		z, _ = zlib.NewWriterLevel(w, zlib.BestSpeed)
	}
	z.Reset(w)
	return z, func() { s.pools.deflate.Put(z) }
}
