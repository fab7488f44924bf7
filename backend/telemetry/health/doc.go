// Package health judges whether a GPU may serve: whether its results and its times can be
// trusted.
//
//	what NVML says (Facts, XIDs), and time --> Judge --> Verdict: healthy, warn, out
//
// # What leads to what
//
//   - The clocks are held down by heat, a power brake or the hardware (Slowing): times are
//     not those of the profile. Out of service when it lasts; the software's power cap,
//     which a GPU under load meets every day, only warns.
//   - The GPU cannot be reached (fallen off the bus), or NVML is silent about it: out.
//   - Uncorrectable memory errors: the driver ended what ran. Out, with a new CUDA context
//     needed, for a probation; the second within an hour stays out until a reset.
//   - XIDs: by Explain.
//   - A process that is not ours computes on it: said, and out where that is configured.
//
// # Invariants
//
//  1. Who is out returns only after Config.Hold without any reason to be out. Each relapse
//     doubles the span, up to Config.HoldMax; health for Config.Forget forgets them.
//  2. A verdict's cause is fixed when it comes up: numbers that change do not change a
//     verdict. So a log line per change is few lines.
//  3. What needs a reset stays out until the GPU was seen to be away or its volatile error
//     counters fell: nobody else can tell that it was reset.
//
// Instants are the caller's, and rise from call to call.
package health
