package backend

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// chooseGPUs picks a pool's from those that are there; taken are the pools that have a GPU
// already, by its index. GPUs of one pool are equal: they have one l(b).
func chooseGPUs(all []cuda.Info, cfg *PoolConfig, taken map[int]string) ([]cuda.Info, error) {
	var chosen []cuda.Info
	if len(cfg.GPUs) > 0 {
		for _, name := range cfg.GPUs {
			g, err := findGPU(all, name)
			if err != nil {
				return nil, err
			}
			if by, ok := taken[g.Index]; ok {
				return nil, fmt.Errorf("GPU %s is pool %s's already", name, by)
			}
			if slices.ContainsFunc(chosen, func(o cuda.Info) bool { return o.Index == g.Index }) {
				return nil, fmt.Errorf("gpus names GPU %d twice: %v", g.Index, cfg.GPUs)
			}
			chosen = append(chosen, g)
		}
	} else {
		for _, g := range all {
			if _, ok := taken[g.Index]; !ok && (cfg.Devices == 0 || len(chosen) < cfg.Devices) {
				chosen = append(chosen, g)
			}
		}
	}
	if len(chosen) == 0 || len(chosen) < cfg.Devices {
		return nil, fmt.Errorf("%d GPUs are wanted, %d are free of the %d that CUDA_VISIBLE_DEVICES leaves: %s", max(1, cfg.Devices), len(chosen), len(all), describe(all))
	}
	for _, g := range chosen[1:] {
		if g.Name != chosen[0].Name {
			return nil, fmt.Errorf("its GPUs are not equal: %s: make a pool for each kind, with gpus", describe(chosen))
		}
	}
	return chosen, nil
}

// findGPU finds one by index, UUID, or the unique beginning of a UUID.
func findGPU(all []cuda.Info, name string) (cuda.Info, error) {
	var found []cuda.Info
	index, err := strconv.Atoi(name)
	for _, g := range all {
		switch {
		case g.UUID == name, err == nil && g.Index == index:
			return g, nil
		case err != nil && strings.HasPrefix(g.UUID, name):
			found = append(found, g)
		}
	}
	switch len(found) {
	case 0:
		return cuda.Info{}, fmt.Errorf("there is no GPU %s: %s", name, describe(all))
	case 1:
		return found[0], nil
	}
	return cuda.Info{}, fmt.Errorf("%d GPUs begin with %s: %s", len(found), name, describe(found))
}

// describe lists GPUs, for messages.
func describe(all []cuda.Info) string {
	if len(all) == 0 {
		return "there is none"
	}
	var text []string
	for _, g := range all {
		text = append(text, fmt.Sprintf("%d is %s (%s)", g.Index, g.Name, g.UUID))
	}
	return strings.Join(text, ", ")
}

// noWord is what does not go into the name of a device type.
var noWord = regexp.MustCompile(`[^a-z0-9.]+`)

// deviceType is a GPU's product name as a device type: "nvidia-h100-80gb-hbm3".
func deviceType(product string) string {
	return strings.Trim(noWord.ReplaceAllString(strings.ToLower(product), "-"), "-")
}

// driverVersion is as people write it: 13000 is CUDA 13.0.
func driverVersion(v int) string { return fmt.Sprintf("CUDA %d.%d", v/1000, v%1000/10) }
