package health

// Effect is what an XID means for who serves on the GPU.
type Effect uint8

// Effects.
const (
	// Noted: said, nothing follows. Also of codes that are not in the list: a new driver's
	// remark must not take a fleet out of service.
	Noted Effect = iota
	// ContextLost: an application's error, or what the driver does after one. Contexts
	// that it hit are lost, the GPU is not.
	ContextLost
	// MemoryError: uncorrectable, and contained: who used that memory was ended.
	MemoryError
	// NeedsReset: nothing on this GPU can be trusted before it was reset.
	NeedsReset
)

// Explain says what an XID is and what follows.
//
// Sources: NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html),
// where RESTART_APP is ContextLost here, RESET_GPU and RESTART_BM NeedsReset, IGNORE and
// CONTACT_SUPPORT Noted; docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt for contained
// errors; and NVIDIA's k8s-device-plugin (internal/rm/health.go), which takes 13, 31, 43,
// 45, 68 and 109 for errors of applications. Where they differ:
//
//   - 43 and 45 are IGNORE in the catalog since they follow from another error; whose
//     context they end, it is lost all the same.
//   - 48 depends on what follows it there: with 94 the application goes on after a
//     restart, with 64 or 95, which have their own lines here, it needs a reset.
//   - 74 (NVLink) has a workflow of its own whose most frequent end is a reset.
//   - 109 is RESET_GPU in the catalog, but nothing is corrupted, and where the GPU is stuck
//     indeed no new context will open on it.
//   - 144 to 150 (NVLink 5) need data that NVML's event does not carry.
func Explain(code uint64) (what string, e Effect) {
	switch code {
	case 8, 43:
		return "the GPU stopped processing a context", ContextLost
	case 11, 25, 32, 80:
		return "invalid commands", ContextLost
	case 13:
		return "exception of a kernel", ContextLost
	case 31:
		return "page fault: an illegal address", ContextLost
	case 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135:
		return "exception of a copy engine", ContextLost
	case 45:
		return "a context was cleaned up after an error", ContextLost
	case 69:
		return "class error of a kernel", ContextLost
	case 109:
		return "timeout of a context switch", ContextLost
	case 48:
		return "double-bit memory error", MemoryError
	case 94:
		return "contained memory error", MemoryError
	case 171, 172:
		return "uncorrectable memory error", MemoryError
	}
	return explainHardware(code)
}

func explainHardware(code uint64) (string, Effect) {
	switch code {
	case 46:
		return "the GPU stopped processing", NeedsReset
	case 54:
		return "auxiliary power is not connected", NeedsReset
	case 62:
		return "an internal controller halted", NeedsReset
	case 64:
		return "a memory row could not be remapped", NeedsReset
	case 74:
		return "NVLink error", NeedsReset
	case 79:
		return "the GPU has fallen off the bus", NeedsReset
	case 95:
		return "uncontained memory error", NeedsReset
	case 110:
		return "security fault", NeedsReset
	case 119, 120:
		return "the GPU's system processor does not answer", NeedsReset
	case 140:
		return "unrecovered memory error", NeedsReset
	case 143:
		return "the GPU could not be initialized", NeedsReset
	case 156:
		return "a resource of the GPU is retired", NeedsReset
	case 158, 167:
		return "fatal timeout", NeedsReset
	case 63:
		return "a memory row is remapped with the next reset", Noted
	case 92:
		return "many corrected memory errors", Noted
	case 93:
		return "the GPU's own storage is worn", Noted
	case 154:
		return "the GPU's recovery action changed", Noted
	}
	return "not one that we know", Noted
}
