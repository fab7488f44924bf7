package main

// class is what a package is allowed to be.
type class int

const (
	leaf  class = iota // helper without upward imports
	core               // pure: no clock, goroutine, channel, lock, log, map order
	shell              // owns goroutines and I/O
	wire               // wiring: the binary and its subcommands
)

// room is one package: its class and which packages of this module it may
// import. Every package of the tree has a room.
type room struct {
	class   class
	imports []string
}

const (
	fileLinesMax = 600
	funcLinesMax = 70

	// architectureMax keeps ARCHITECTURE.md to what a newcomer reads in one sitting;
	// reasons belong into docs/decisions.
	architectureMax = 16384 // bytes
)

// coreBanned are imports that would let a core know the time, block, or
// depend on the machine.
func coreBanned() []string {
	return []string{"time", "sync", "sync/atomic", "os", "net", "runtime", "context", "log", "math/rand", "syscall",
		"github.com/rs/zerolog", "golang.org/x/sys/unix", "unsafe"}
}

// controlPlane is the folder of the control plane's packages.
const controlPlane = "scheduler/control/"

// bannedWords are not in the glossary: say backend, scheduler, frontend.
func bannedWords() []string { return []string{"worker", "dispatcher"} }
