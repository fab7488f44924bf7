package grpcin

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// counted is a stream whose messages are counted out as its handler gets them.
type counted struct {
	grpc.ServerStream
	arrival *arrival
}

// RecvMsg implements grpc.ServerStream.
func (c counted) RecvMsg(m any) error {
	err := c.ServerStream.RecvMsg(m)
	if err == nil {
		c.arrival.message(sizeOf(m))
	}
	return err
}

// sizeOf is a message's bytes.
func sizeOf(m any) int {
	switch m := m.(type) {
	case *request:
		return m.bytes
	case proto.Message:
		return proto.Size(m)
	}
	return 0
}
