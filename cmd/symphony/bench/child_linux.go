package bench

import "syscall"

// endWithParent has the kernel end a process with its parent, however that ends.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
