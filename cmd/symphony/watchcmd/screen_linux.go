package watchcmd

import "golang.org/x/sys/unix"

const (
	ioctlGetTermios, ioctlSetTermios = unix.TCGETS, unix.TCSETS
	noKey                            = 0 // _POSIX_VDISABLE: in a place of Termios.Cc, no key does that
)

// fatalKeys are the places of Termios.Cc whose keys stop or kill, but for Ctrl-C.
var fatalKeys = [...]int{unix.VSUSP, unix.VQUIT}
