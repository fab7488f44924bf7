package grpcin

import (
	"context"
	"net"
	"reflect"

	"google.golang.org/grpc/peer"
)

// sourceOf tells the calls of one connection from those of others (frontend.Request.Source): by the client's address and
// port, or, over a Unix socket, by the object that a connection has for its address.
func sourceOf(ctx context.Context) uint64 {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return 0
	}
	tcp, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		if at := reflect.ValueOf(p.Addr); at.Kind() == reflect.Pointer {
			return uint64(at.Pointer())
		}
		return 0
	}
	sum := uint64(14695981039346656037) // FNV-1a
	for _, b := range tcp.IP {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return (sum^uint64(tcp.Port))*1099511628211 | 1
}
