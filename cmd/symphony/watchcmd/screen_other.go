//go:build !linux

package watchcmd

import "golang.org/x/sys/unix"

const (
	ioctlGetTermios, ioctlSetTermios = unix.TIOCGETA, unix.TIOCSETA
	noKey                            = 0xff // _POSIX_VDISABLE of macOS and the BSDs; 0 is the key Ctrl-@ there
)

// fatalKeys are the places of Termios.Cc whose keys stop or kill, but for Ctrl-C.
var fatalKeys = [...]int{unix.VSUSP, unix.VDSUSP, unix.VQUIT}
