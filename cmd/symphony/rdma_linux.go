package main

import "golang.org/x/sys/unix"

// memlock is the limit, or all there is for who may exceed it.
func memlock() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 {
		return ^uint64(0)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return ^uint64(0) // unknown: say nothing of it
	}
	return limit.Cur
}

// denied reports whether this user may not use the file.
func denied(file string) bool { return unix.Access(file, unix.R_OK|unix.W_OK) != nil }
