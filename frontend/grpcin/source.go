package grpcin

import (
	"context"
	"hash/maphash"
	"net"
	"reflect"

	"google.golang.org/grpc/peer"
)

// sourceSeed is this process's own, so that no client can choose an address that counts as another's.
var sourceSeed = maphash.MakeSeed()

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
	return maphash.Comparable(sourceSeed, tcp.AddrPort())
}
