package backend

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

func TestDeviceType(t *testing.T) {
	for name, want := range map[string]string{"NVIDIA H100 80GB HBM3": "nvidia-h100-80gb-hbm3", "NVIDIA GeForce RTX 4090": "nvidia-geforce-rtx-4090",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb": "nvidia-a100-sxm4-40gb-mig-1g.5gb", " (x) ": "x"} {
		if got := deviceType(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if v := driverVersion(12040); v != "CUDA 12.4" {
		t.Error(v)
	}
}

func TestChooseGPUs(t *testing.T) {
	all := []cuda.Info{{Index: 0, Name: "H", UUID: "GPU-aa11"}, {Index: 1, Name: "H", UUID: "GPU-ab22"}, {Index: 2, Name: "H", UUID: "MIG-cc"}, {Index: 3, Name: "A", UUID: "GPU-dd"}}
	for _, c := range []struct {
		name  string
		all   []cuda.Info
		cfg   PoolConfig
		taken map[int]string
		want  []int
		fails string
	}{
		{name: "all", all: all[:3], want: []int{0, 1, 2}},
		{name: "so many", all: all, cfg: PoolConfig{Devices: 2}, want: []int{0, 1}},
		{name: "those that are left", all: all[:3], cfg: PoolConfig{Devices: 2}, taken: map[int]string{0: "p"}, want: []int{1, 2}},
		{name: "by name, in its order", all: all, cfg: PoolConfig{GPUs: []string{"MIG-cc", "0", "GPU-ab"}}, want: []int{2, 0, 1}},
		{name: "too many", all: all, cfg: PoolConfig{Devices: 5}, fails: "5 GPUs are wanted, 4 are free of the 4"},
		{name: "none", cfg: PoolConfig{}, fails: "there is none"},
		{name: "all taken", all: all[:1], taken: map[int]string{0: "p"}, fails: "1 GPUs are wanted, 0 are free"},
		{name: "no such", all: all, cfg: PoolConfig{GPUs: []string{"GPU-zz"}}, fails: "there is no GPU GPU-zz: 0 is H (GPU-aa11)"},
		{name: "no such index", all: all, cfg: PoolConfig{GPUs: []string{"7"}}, fails: "there is no GPU 7"},
		{name: "ambiguous", all: all, cfg: PoolConfig{GPUs: []string{"GPU-a"}}, fails: "2 GPUs begin with GPU-a"},
		{name: "twice", all: all, cfg: PoolConfig{GPUs: []string{"0", "GPU-aa11"}}, fails: "twice"},
		{name: "another pool's", all: all, cfg: PoolConfig{GPUs: []string{"0"}}, taken: map[int]string{0: "p"}, fails: "pool p's already"},
		{name: "unequal", all: all, fails: "not equal: 0 is H"},
	} {
		got, err := chooseGPUs(c.all, &c.cfg, c.taken)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		var indices []int
		for _, g := range got {
			indices = append(indices, g.Index)
		}
		if err != nil || !slices.Equal(indices, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, indices, err, c.want)
		}
	}
}
