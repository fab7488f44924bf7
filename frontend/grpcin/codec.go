package grpcin

import (
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's own for protocol buffers, but for inferences: of a request it keeps the buffers that
// came from the connection, and a reply is encoded already.
type codec struct{ made encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Name implements encoding.CodecV2.
func (codec) Name() string { return grpcproto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*reply); ok {
		return mem.BufferSlice{mem.NewBuffer(&r.bytes, r.pool)}, nil
	}
	return c.made.Marshal(v)
}

// Unmarshal implements encoding.CodecV2. What is wrong with an inference's request is its handler's to
// say: an error here would be answered as a fault of the server's.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*request); ok {
		r.take(data)
		return nil
	}
	return c.made.Unmarshal(data, v)
}
