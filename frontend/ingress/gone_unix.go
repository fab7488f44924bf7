//go:build unix

package ingress

import "golang.org/x/sys/unix"

// closed reports whether the peer has closed the socket, and nothing is left to read before that. It takes nothing.
func closed(fd uintptr) bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch err {
	case nil:
		return n == 0
	case unix.EAGAIN, unix.EINTR:
		return false
	}
	return true // reset
}
