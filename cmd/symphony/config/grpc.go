package config

import "net"

// GRPCAuto is Frontend.GRPC where nothing is said.
const GRPCAuto = "auto"

// The ports that clients of the protocol expect.
const (
	portHTTP = "8000"
	portGRPC = "8001"
)

// GRPCAddress is where gRPC is to be served; "": nowhere. asked: somebody wants it there, so it must
// be. Beside HTTP at another port than the customary one it is not guessed: two systems on one host
// would be in each other's way.
func (f *Frontend) GRPCAddress() (address string, asked bool) {
	if f.GRPC != GRPCAuto {
		return f.GRPC, true
	}
	host, port, err := net.SplitHostPort(f.HTTP)
	if err != nil || port != portHTTP {
		return "", false
	}
	return net.JoinHostPort(host, portGRPC), false
}
