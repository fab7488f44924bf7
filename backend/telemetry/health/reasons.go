package health

import "strings"

// Reasons are why a GPU's clocks are below what was asked for: the bits of NVML's
// clocks event reasons (nvml.h, nvmlClocksEventReason*; "throttle reasons" before R535).
type Reasons uint64

// Reasons, as in nvml.h.
const (
	Idle              Reasons = 1 << 0 // nothing runs
	ApplicationClocks Reasons = 1 << 1 // somebody set them (nvidia-smi -ac, -lgc)
	PowerCap          Reasons = 1 << 2 // the software keeps to the power limit
	HWSlowdown        Reasons = 1 << 3 // the hardware halves them, or more; also for moments when they change
	SyncBoost         Reasons = 1 << 4 // a group of GPUs follows the slowest
	SWThermal         Reasons = 1 << 5 // the software keeps to the temperature limit
	HWThermal         Reasons = 1 << 6 // the hardware keeps from overheating
	PowerBrake        Reasons = 1 << 7 // the power supply asks for less
	DisplayClocks     Reasons = 1 << 8
)

// Slowing are those under which a batch takes longer than its profile says, by nobody's
// wish.
const Slowing = HWSlowdown | SWThermal | HWThermal | PowerBrake

// String names them, "none" if there is none.
func (r Reasons) String() string {
	if r&(HWThermal|PowerBrake) != 0 {
		r &^= HWSlowdown // is set beside them, and says less
	}
	var names []string
	for _, n := range []struct {
		bit  Reasons
		name string
	}{
		{HWThermal, "hardware thermal slowdown"}, {PowerBrake, "power brake"}, {HWSlowdown, "hardware slowdown"},
		{SWThermal, "software thermal slowdown"}, {PowerCap, "power cap"}, {SyncBoost, "sync boost"},
		{ApplicationClocks, "clocks set by hand"}, {DisplayClocks, "display clocks"}, {Idle, "idle"},
	} {
		if r&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
