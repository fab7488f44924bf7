package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// goodFiles are those of a machine with eight processors where nothing is to be done; cores 6 and 7
// are the scheduler's.
func goodFiles() map[string]string {
	files := map[string]string{
		"proc/cpuinfo":                        "processor\t: 0\nflags\t\t: fpu tsc constant_tsc\n",
		"proc/stat":                           "cpu  100 0 100 800 0 0 0 0 0 0\n",
		"proc/self/cgroup":                    "0::/system.slice/symphony.service\n",
		"proc/meminfo":                        "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\nHugePages_Total: 4096\nHugePages_Free: 4000\nHugepagesize: 2048 kB\n",
		"proc/swaps":                          "Filename\tType\tSize\tUsed\tPriority\n",
		"proc/sys/net/core/somaxconn":         "4096\n",
		"proc/irq/41/smp_affinity_list":       "0-7\n",
		"proc/irq/41/effective_affinity_list": "0\n",
		"proc/1/comm":                         "systemd\n",
		"sys/devices/system/cpu/online":       "0-7\n",
		"sys/fs/cgroup/system.slice/cpu.max":  "max 100000\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc\n",
		"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                        "always [madvise] never\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state0/name":                   "POLL\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state0/latency":                "0\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/name":                   "C1\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/latency":                "2\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state2/name":                   "C6\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state2/latency":                "133\n",
		"sys/devices/system/cpu/cpu0/cpuidle/state2/disable":                "1\n",
		"sys/devices/pci0/0000:00:04.0/msi_irqs/41":                         "msix\n",
	}
	for _, c := range "01234567" {
		files["sys/devices/system/cpu/cpu"+string(c)+"/cpufreq/scaling_governor"] = "performance\n"
	}
	return files
}

func goodNeeds() Needs {
	return Needs{Connections: 16384, Memory: 2 << 30, Pinned: 1 << 30, Threads: 100, LoopCores: []int{7, 6}, Devices: true}
}

// host writes the files, and gives the machine that they are of. The network device is eth0; where
// it is virtio, its interrupts are its parent's.
func host(t *testing.T, files map[string]string) *Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pci := filepath.Join(root, "sys/devices/pci0/0000:00:04.0")
	for _, dir := range []string{filepath.Join(pci, "virtio3"), filepath.Join(root, "sys/class/net/eth0"), filepath.Join(root, "sys/class/net/lo")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(pci, "virtio3"), filepath.Join(root, "sys/class/net/eth0/device")); err != nil {
		t.Fatal(err)
	}
	return &Host{Root: root, Cores: []int{0, 1, 2, 3, 4, 5, 6, 7}, Caps: 1 << capSysNice, Kernel: "6.12.0", Shared: 8 << 30,
		Limits: Limits{Locked: Unlimited, Files: 1 << 20, Threads: 1 << 15},
		Clock:  Clock{Resolution: 1, Reading: 40, Synced: true, SyncKnown: true, Waits: 200, LateP50: 20 * mono.Microsecond, LateP99: 60 * mono.Microsecond}}
}

// TestNothingToDo: on a good machine all is well.
func TestNothingToDo(t *testing.T) {
	all := host(t, goodFiles()).Look(goodNeeds())
	if len(all) < 17 {
		t.Errorf("only %d findings", len(all))
	}
	for _, f := range all {
		if f.State != OK || f.Change != "" {
			t.Errorf("%s: %v: %s -> %s", f.Part, f.State, f.Found, f.Change)
		}
	}
}

// fault is a machine with one thing wrong.
type fault struct {
	name   string
	files  map[string]string // over the good ones; "-": it is not there
	host   func(*Host)
	needs  func(*Needs)
	part   string
	state  State
	found  string // in the finding's text
	change string // in what to change
}

func processorFaults() []fault {
	const sys = "sys/devices/system/cpu/"
	return []fault{
		{name: "quota of version 2, of a group above", files: map[string]string{"sys/fs/cgroup/system.slice/cpu.max": "150000 100000", "sys/fs/cgroup/system.slice/cpu.stat": "nr_periods 9\nnr_throttled 7\n"},
			part: "processors", state: Warn, found: "with the time of 1.5 (a quota, /sys/fs/cgroup/system.slice); it has stopped this group 7 times", change: "no limits.cpu"},
		{name: "quota of version 1", files: map[string]string{"proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/docker/ab\n", "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us": "100000"},
			part: "processors", state: Warn, found: "with the time of 0.5", change: "CPUQuota="},
		{name: "no quota of version 1", files: map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
			part: "processors", state: OK, found: "8 of 8, numbers 0-7, no quota"},
		{name: "some of the processors", host: func(h *Host) { h.Cores = []int{1, 2, 5} }, part: "processors", state: OK, found: "3 of 8, numbers 1-2,5"},
		{name: "a virtual machine", files: map[string]string{"proc/cpuinfo": "flags\t: fpu hypervisor tsc\n"}, part: "system", state: Note, found: "virtual machine"},
		{name: "stolen time", files: map[string]string{"proc/cpuinfo": "flags\t: fpu hypervisor tsc\n", "proc/stat": "cpu  100 0 100 700 0 0 0 100 0 0\n"},
			part: "stolen time", state: Warn, found: "10.0 %", change: "processors of its own"},
		{name: "little stolen time", files: map[string]string{"proc/cpuinfo": "flags\t: fpu hypervisor tsc\n", "proc/stat": "cpu  100 0 100 799 0 0 0 1 0 0\n"}, part: "stolen time", state: OK, found: "0.1 %"},
		{name: "a slow governor", files: map[string]string{sys + "cpu3/cpufreq/scaling_governor": "powersave"}, part: "frequency", state: Warn, found: "performance on processors 0-2,4-7, powersave on processors 3", change: "cpupower frequency-set -g performance"},
		{name: "deep idle", files: map[string]string{sys + "cpu0/cpuidle/state2/disable": "0"}, part: "idle states", state: Warn, found: "C6, takes 133 us", change: "cpupower idle-set -D 20"},
		{name: "no idle states", files: map[string]string{sys + "cpu0/cpuidle/state0/latency": "-", sys + "cpu0/cpuidle/state1/latency": "-", sys + "cpu0/cpuidle/state2/latency": "-"}, part: "idle states", state: Note, found: "no control"},
		{name: "interrupts on the loops", files: map[string]string{"proc/irq/41/effective_affinity_list": "6"}, part: "interrupts", state: Warn, found: "1 of them on those of the scheduler's loops, 6-7", change: "for i in 41; do echo 0-5 | sudo tee /proc/irq/$i/smp_affinity_list; done"},
		{name: "interrupts may go anywhere", files: map[string]string{"proc/irq/41/effective_affinity_list": "-"}, part: "interrupts", state: Warn, found: "on processors 0-7", change: "echo 0-5"},
		{name: "irqbalance", files: map[string]string{"proc/77/comm": "irqbalance\n"}, part: "interrupts", state: Warn, found: "irqbalance runs", change: "disable --now irqbalance"},
		{name: "loops that float", needs: func(n *Needs) { n.LoopCores = nil }, part: "interrupts", state: OK, found: "tied to none"},
		{name: "no interrupts told", files: map[string]string{"sys/devices/pci0/0000:00:04.0/msi_irqs/41": "-"}, part: "interrupts", state: Note, found: "none of a network device"},
		{name: "no priority", host: func(h *Host) { h.Caps = 0 }, part: "priorities", state: Warn, found: "6-7, may not go before others", change: "CAP_SYS_NICE"},
		{name: "priority by a limit", host: func(h *Host) { h.Caps, h.Limits.Nice = 0, 40 }, part: "priorities", state: OK, found: "may go before others"},
	}
}

func clockFaults() []fault {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	return []fault{
		{name: "late timers", host: func(h *Host) { h.Clock.LateP99 = 4 * mono.Millisecond }, part: "timers", state: Warn, found: "4ms at p99", change: "scheduler.lead"},
		{name: "coarse timers", host: func(h *Host) { h.Clock.Resolution = 4 * mono.Millisecond }, part: "timers", state: Warn, found: "resolution of 4ms", change: "CONFIG_HIGH_RES_TIMERS"},
		{name: "a slow clock", files: map[string]string{dir + "current_clocksource": "hpet"}, host: func(h *Host) { h.Clock.Reading = 1500 }, part: "clock", state: Warn, found: "source hpet", change: "echo tsc | sudo tee /sys/"},
		{name: "a slow clock and no other", files: map[string]string{dir + "current_clocksource": "xen", dir + "available_clocksource": "xen"}, host: func(h *Host) { h.Clock.Reading = 1500 }, part: "clock", state: Warn, found: "source xen", change: "a host whose"},
		{name: "nothing keeps the wall clock", host: func(h *Host) { h.Clock.Synced = false }, part: "wall clock", state: Warn, found: "nothing keeps it right", change: "chrony"},
		{name: "wall clock unknown", host: func(h *Host) { h.Clock.SyncKnown = false }, part: "wall clock", state: Note, found: "not told"},
	}
}

func memoryFaults() []fault {
	const thp = "sys/kernel/mm/transparent_hugepage/enabled"
	none := "MemAvailable: 16777216 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n"
	return []fault{
		{name: "memlock", host: func(h *Host) { h.Limits.Locked = 8 << 20 }, part: "memlock", state: Warn, found: "8 MiB, and the arena and the batch buffers may take 1.0 GiB", change: "LimitMEMLOCK=infinity"},
		{name: "memlock that nobody needs", host: func(h *Host) { h.Limits.Locked = 8 << 20 }, needs: func(n *Needs) { n.Devices = false }, part: "memlock", state: Note, found: "enough here"},
		{name: "memlock by a capability", host: func(h *Host) { h.Limits.Locked, h.Caps = 0, 1<<capIPCLock }, part: "memlock", state: OK, found: "any amount"},
		{name: "no huge pages", files: map[string]string{"proc/meminfo": none}, part: "huge pages", state: Warn, found: "none are set aside", change: "vm.nr_hugepages=512"},
		{name: "no huge pages at all", files: map[string]string{"proc/meminfo": none, thp: "always madvise [never]"}, needs: func(n *Needs) { n.Devices = false }, part: "huge pages", state: Warn, found: "transparent_hugepage is never", change: "echo madvise"},
		{name: "huge pages made by the kernel", files: map[string]string{"proc/meminfo": none}, needs: func(n *Needs) { n.Devices = false }, part: "huge pages", state: OK, found: "as it can"},
		{name: "too few huge pages are free", files: map[string]string{"proc/meminfo": "MemAvailable: 16777216 kB\nHugePages_Total: 512\nHugePages_Free: 12\nHugepagesize: 2048 kB\n"}, part: "huge pages", state: Warn, found: "12 of 512", change: "vm.nr_hugepages=1012"},
		{name: "little memory", files: map[string]string{"proc/meminfo": "MemAvailable: 1048576 kB\n"}, part: "memory", state: Fail, found: "1.0 GiB are available of the host", change: "frontend.arena"},
		{name: "a group of version 2", files: map[string]string{"sys/fs/cgroup/system.slice/symphony.service/memory.max": "1073741824", "sys/fs/cgroup/system.slice/symphony.service/memory.current": "524288000", "sys/fs/cgroup/system.slice/symphony.service/memory.stat": "anon 1\ninactive_file 104857600\n"},
			part: "memory", state: Fail, found: "624 MiB are available of this control group", change: "limit of the container"},
		{name: "a group of version 1", files: map[string]string{"proc/self/cgroup": "4:memory:/d\n", "sys/fs/cgroup/memory/d/memory.limit_in_bytes": "4294967296", "sys/fs/cgroup/memory/d/memory.usage_in_bytes": "1073741824", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"},
			part: "memory", state: OK, found: "3.0 GiB are available of this control group"},
		{name: "memory unknown", files: map[string]string{"proc/meminfo": "-"}, part: "memory", state: Note, found: "not told"},
		{name: "swap", files: map[string]string{"proc/swaps": "Filename\tType\n/dev/sda2 partition 8 0 -2\n"}, part: "swap", state: Warn, found: "/dev/sda2", change: "swapoff"},
		{name: "few files", host: func(h *Host) { h.Limits.Files = 1024 }, part: "open files", state: Warn, found: "1024 open", change: "LimitNOFILE=17408"},
		{name: "a short backlog", files: map[string]string{"proc/sys/net/core/somaxconn": "128"}, part: "backlog", state: Warn, found: "128", change: "somaxconn=16384"},
		{name: "backlog unknown", files: map[string]string{"proc/sys/net/core/somaxconn": "-"}, part: "backlog", state: Note, found: "not told"},
		{name: "few threads of a group", files: map[string]string{"sys/fs/cgroup/system.slice/symphony.service/pids.max": "64"}, part: "threads", state: Fail, found: "64 of this control group", change: "TasksMax=400"},
		{name: "few threads of a user", host: func(h *Host) { h.Limits.Threads = 50 }, part: "threads", state: Fail, found: "50 of this user", change: "ulimit -u 400"},
		{name: "threads of a host", files: map[string]string{"proc/sys/kernel/pid_max": "90"}, part: "threads", state: Fail, found: "90 of this host", change: "ulimit -u 400"},
		{name: "threads of who may have any", host: func(h *Host) { h.Limits.Threads, h.Caps = 50, h.Caps|1<<capSysResource }, part: "threads", state: OK, found: "any number"},
		{name: "a container's shared memory", host: func(h *Host) { h.Shared = 64 << 20 }, part: "shared memory", state: Warn, found: "64 MiB", change: "--shm-size"},
		{name: "no shared memory", host: func(h *Host) { h.Shared = 0 }, part: "shared memory", state: Note, found: "no /dev/shm"},
	}
}

// TestFaults: each thing that is wrong is found alone, and what to change is said.
func TestFaults(t *testing.T) {
	for _, f := range append(append(processorFaults(), clockFaults()...), memoryFaults()...) {
		t.Run(f.name, func(t *testing.T) {
			files := goodFiles()
			for name, text := range f.files {
				files[name] = text
				if text == "-" {
					delete(files, name)
				}
			}
			h, n := host(t, files), goodNeeds()
			if f.host != nil {
				f.host(h)
			}
			if f.needs != nil {
				f.needs(&n)
			}
			seen := false
			for _, got := range h.Look(n) {
				if (got.State >= Warn) != (got.Change != "") {
					t.Errorf("%s: %v with the change %q", got.Part, got.State, got.Change)
				}
				if got.Part != f.part {
					continue
				}
				seen = true
				if got.State != f.state || !strings.Contains(got.Found, f.found) || !strings.Contains(got.Change, f.change) {
					t.Errorf("%v: %s -> %s", got.State, got.Found, got.Change)
				}
			}
			if !seen {
				t.Errorf("no finding of %s", f.part)
			}
		})
	}
}

// TestNothingToRead: a system without any of the files is told of as far as it goes.
func TestNothingToRead(t *testing.T) {
	h := &Host{Root: t.TempDir(), Limits: Limits{Locked: Unlimited, Files: Unlimited, Threads: Unlimited}}
	for _, f := range h.Look(Needs{}) {
		if f.Found == "" || strings.Contains(f.Found, "%!") || f.State == Fail {
			t.Errorf("%+v", f)
		}
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	all := []Finding{{Part: "swap", Found: "none"}, {Part: "open files", State: Warn, Found: "this process may have 1024 open", Change: "ulimit -n 17408"},
		{Part: "memory", State: Fail, Found: "little"}, {Part: "x", State: Note, Found: ""}}
	if err := Print(&out, all, 40); err != nil {
		t.Fatal(err)
	}
	const want = `ok    swap        none
warn  open files  this process may have
                  1024 open
                  -> ulimit -n 17408
fail  memory      little
note  x           ` + `
4 looked at: 1 fail, 1 warn, 1 to note, 1 ok
`
	if got := strings.Replace(out.String(), "\n\n", "\n", 1); got != want {
		t.Errorf("got\n%s", got)
	}
	if Worst(all) != Fail || Worst(nil) != OK {
		t.Error(Worst(all))
	}
	b, err := json.Marshal(all[1])
	if err != nil || string(b) != `{"part":"open files","state":"warn","found":"this process may have 1024 open","change":"ulimit -n 17408"}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestCores(t *testing.T) {
	for in, want := range map[string]string{"0-3,8": "0-3,8", "": "", "5\n": "5", "x,1-y,7": "7", "3,1,2": "1-3"} {
		if got := list(cores(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
