package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/doctor"
	"github.com/symphony-serving/symphony/transport/netprobe"
)

// examined is what is found of devices and libraries, by part; the host itself has nothing to tell.
func examined(t *testing.T, d doors, change func(*config.Config), probe error) map[string][]doctor.Finding {
	t.Helper()
	cfg := config.Default()
	if change != nil {
		change(&cfg)
	}
	h := &doctor.Host{Root: t.TempDir(), Limits: doctor.Limits{Locked: 0, Files: doctor.Unlimited, Threads: doctor.Unlimited}}
	out := map[string][]doctor.Finding{}
	for _, f := range examine(h, look(d), cfg, func() error { return probe }) {
		if (f.State >= doctor.Warn) != (f.Change != "") || f.Found == "" {
			t.Errorf("%+v", f)
		}
		out[f.Part] = append(out[f.Part], f)
	}
	return out
}

func expect(t *testing.T, got []doctor.Finding, n int, state doctor.State, found, change string) {
	t.Helper()
	if len(got) <= n || got[n].State != state || !strings.Contains(got[n].Found, found) || !strings.Contains(got[n].Change, change) {
		t.Errorf("%+v", got)
	}
}

// TestDoctorNothing: where there are no devices, and none are asked for, nothing is to be done about it.
func TestDoctorNothing(t *testing.T) {
	all := examined(t, bareDoors(), nil, nil)
	expect(t, all["GPU"], 0, doctor.Note, "models run on the CPU", "")
	expect(t, all["RDMA"], 0, doctor.Note, "links use TCP", "")
	expect(t, all["round trips"], 0, doctor.OK, "eBPF", "")
	expect(t, all["memlock"], 0, doctor.Note, "no RDMA device and no GPU", "")
	expect(t, all["ONNX Runtime"], 0, doctor.Warn, "not at build", "make models")
	if len(all["NVML"])+len(all["CUDA driver"])+len(all["RDMA verbs"]) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestDoctorAsked: what the configuration asks for and is not there fails.
func TestDoctorAsked(t *testing.T) {
	all := examined(t, bareDoors(), func(c *config.Config) {
		c.RDMA.Mode = "always"
		c.Backend.Pools = []config.Pool{{Kind: "cuda"}, {Kind: "cpu", DeviceType: "cpu", Devices: 1}}
	}, &netprobe.UnsupportedError{What: "kernel probe", Need: "run as root"})
	expect(t, all["GPU"], 0, doctor.Fail, "a pool is of kind cuda", "install NVIDIA's driver")
	expect(t, all["RDMA"], 0, doctor.Fail, "rdma.mode is always", "auto")
	expect(t, all["round trips"], 0, doctor.Warn, "heartbeats alone", "run as root")
	expect(t, all["ONNX Runtime"], 0, doctor.Fail, "not at build", "make models")
	expect(t, all["CUDA driver"], 0, doctor.Fail, "not found", "install NVIDIA's driver")
	all = examined(t, bareDoors(), func(c *config.Config) { c.RDMA.Mode, c.TCP.KernelRTT = "never", "never" }, errors.New("not asked"))
	expect(t, all["RDMA"], 0, doctor.OK, "as configured", "")
	expect(t, all["round trips"], 0, doctor.OK, "as configured", "")
	all = examined(t, bareDoors(), nil, errors.New("odd"))
	expect(t, all["round trips"], 0, doctor.Note, "odd", "")
}

// TestDoctorDevices: each device has its line, and each thing in its way.
func TestDoctorDevices(t *testing.T) {
	d := rdmaDoors()
	expect(t, examined(t, d, nil, nil)["RDMA"], 0, doctor.OK, "mlx5_0 can be used", "")
	d.rdmaHost.memlock = 64 << 10
	all := examined(t, d, nil, nil)
	expect(t, all["RDMA"], 0, doctor.Warn, "mlx5_0 cannot be used: this process may lock 64 KiB", "raise the memlock limit")
	expect(t, all["memlock"], 0, doctor.Warn, "may pin 0 KiB", "LimitMEMLOCK")
	d, _ = gpuDoors()
	all = examined(t, d, nil, nil)
	expect(t, all["GPU"], 0, doctor.OK, "0, NVIDIA H100 80GB HBM3: healthy", "")
	expect(t, all["GPU"], 1, doctor.Warn, "it throttles", "cooling")
	expect(t, all["GPU"], 2, doctor.Warn, "not there", "")
	expect(t, all["GPU"], 3, doctor.Warn, "uncorrectable", "")
	if len(all["GPU"]) != 6 {
		t.Errorf("%+v", all["GPU"])
	}
}
