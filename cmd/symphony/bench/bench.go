// Package bench is `symphony bench`: its commands, their flags, and the reports that
// they print. What is measured, and how, is in the packages below bench/.
//
// A command has a file of its name here: a struct with a field for each flag and a
// method Run, and a line in Command. Help() is what --help adds, check() refuses what
// cannot be measured. Common to them: bounds.go (flags' bounds), report.go (what stands
// beside figures; tables or JSON; what becomes the exit status), child.go (processes of
// this same binary), host.go, overhead_system.go (a whole system in this process),
// simulated.go (reports of simulations).
package bench

// Command is `symphony bench`.
type Command struct {
	Load        loadCmd        `cmd:"" help:"Open-loop load: offered rate, goodput, bad rate by reason, percentiles."`
	Overhead    overheadCmd    `cmd:"" help:"What the system itself takes of a request's time, stage by stage, beside bare TCP and fasthttp."`
	Cold        coldCmd        `cmd:"" help:"More models than fit into GPUs' memory: loads on demand, live beside the simulator, as in Clockwork's Figure 6."`
	Newcomers   newcomersCmd   `cmd:"" help:"What models that come cost one that is served: a server with one CPU device, and models without a profile copied into its repository."`
	Scheduler   schedulerCmd   `cmd:"" help:"The scheduler alone, as in section 5.5 of the paper: how many requests a second it carries, and how late its grants are."`
	HTTP        httpCmd        `cmd:"" name:"http" help:"The HTTP ingress beside a bare fasthttp echo: requests a second, binary and JSON."`
	Net         netCmd         `cmd:"" help:"RDMA and TCP beside each other: an incast of READs as in the paper's Appendix B, and messages by size."`
	Soak        soakCmd        `cmd:"" help:"A cluster under load and faults from a seed, for long: one answer each, no leaks, SLOs kept between the faults."`
	GPU         gpuCmd         `cmd:"" name:"gpu" help:"This machine's NVIDIA GPUs: whether they do what the system assumes, and what it makes of them, with a report; make test-gpu."`
	Peers       peersCmd       `cmd:"" help:"Symphony beside Triton, Ray Serve and BentoML on this machine, each at its best settings; Linux."`
	Draws       drawsCmd       `cmd:"" help:"Random mixes of models, few GPUs and many: every policy's goodput, and ours to the best other."`
	Frontier    frontierCmd    `cmd:"" help:"What latency costs in GPUs, by simulation: schedulers that wait more or less, at 5 % to 100 % of the goodput."`
	Fleet       fleetCmd       `cmd:"" help:"A day of many sub-clusters, by simulation: plans, moves, failures, and what requests notice of them."`
	Subclusters subclustersCmd `cmd:"" help:"GPUs that sub-clusters need by the paper's objective and by ours, by simulation."`
	Paper       paperCmd       `cmd:"" help:"The paper's figures and tables, by simulation, with a report."`
}
