// Package rdmalink is the transport over RDMA: TCP's links, and beside each a
// lane, a queue pair that carries messages and READs while both ends have a device.
package rdmalink
