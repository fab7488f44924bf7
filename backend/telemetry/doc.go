// Package telemetry watches GPUs: what NVML says of them, as metrics under the names of
// DCGM's exporter, and whether they may serve (package health).
//
//	                 a goroutine per device            a goroutine per device
//	NVML.Sample --every 500 ms--> sampler --facts--> unit: Judge --Verdict--> watchers, log
//	NVML.WaitXID --one goroutine--> events ---XID----^
//
// # Rules
//
//  1. NVML is asked by goroutines that do nothing else: a driver that hangs stops no
//     verdict, but leads to one (silence). One device that hangs stops no other.
//  2. A device's watchers are called by its unit's goroutine, one after the other, in the
//     order of the verdicts. They must not block.
//  3. What a device cannot tell is unknown, which is not an error and never a zero.
//
// A MIG instance is a device with a parent: memory and processes are its own, all else is
// that of the GPU below it.
//
// Rejected: asking NVML when metrics are scraped. Verdicts need samples anyhow, and
// two scrapers would ask twice; one throughput alone takes the driver 20 ms.
package telemetry
