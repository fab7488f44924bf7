package wire

import (
	"fmt"
	"net/netip"
	"strings"
)

// SplitTCP parts "tcp:host:port" and "tcp:[host]:port". The host may be empty; the error
// says what is missing.
func SplitTCP(address string) (host, port string, err error) {
	rest, ok := strings.CutPrefix(address, "tcp:")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 || i == len(rest)-1 {
		return "", "", fmt.Errorf("address %q: write tcp:host:port", address)
	}
	host, port = rest[:i], rest[i+1:]
	inner, opened := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if opened != closed || !opened && strings.Contains(host, ":") {
		return "", "", fmt.Errorf("address %q: an IPv6 host stands in brackets", address)
	}
	return inner, port, nil
}

// JoinTCP is the address of a host and port.
func JoinTCP(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "tcp:" + host + ":" + port
}

// Loopback reports whether a host is this one, whatever host it is.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Unspecified reports whether a host means all addresses of its machine.
func Unspecified(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.Unmap().IsUnspecified()
}
