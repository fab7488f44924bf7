package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// text is a file's, without the space around it; "" where it cannot be read.
func (h *Host) text(path string) string {
	b, err := os.ReadFile(filepath.Join(h.Root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number is a file's; false where there is none.
func (h *Host) number(path string) (int64, bool) {
	n, err := strconv.ParseInt(h.text(path), 10, 64)
	return n, err == nil
}

// glob lists paths below the root, relative to it.
func (h *Host) glob(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(h.Root, pattern)) // the only error is a bad pattern
	for i, path := range found {
		found[i], _ = filepath.Rel(h.Root, path)
	}
	return found
}

// fields finds the line "key value ..." and gives its values.
func fields(text, key string) []string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && strings.TrimSuffix(f[0], ":") == key {
			return f[1:]
		}
	}
	return nil
}

// field is the first value of fields as a number.
func field(text, key string) (int64, bool) {
	f := fields(text, key)
	if len(f) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(f[0], 10, 64)
	return n, err == nil
}

// groups are the folders of a controller's control groups that this process is bound by: its own
// first, then those above it. Version 2 has one tree, version 1 one for each controller.
func (h *Host) groups(controller string) []string {
	var out []string
	for line := range strings.Lines(h.text("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base := ""
		switch {
		case parts[0] == "0" && parts[1] == "":
			base = "sys/fs/cgroup"
		case slices.Contains(strings.Split(parts[1], ","), controller):
			base = "sys/fs/cgroup/" + controller
		default:
			continue
		}
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			out = append(out, base+strings.TrimSuffix(path, "/"))
			if path == "/" {
				break
			}
		}
	}
	return out
}

// cores reads a list as the kernel writes it: "0-3,8".
func cores(list string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil {
				continue
			}
		}
		for c := first; c <= last && c-first < 1<<16; c++ {
			out = append(out, c)
		}
	}
	return out
}

// list writes cores as the kernel does.
func list(cores []int) string {
	sorted := slices.Sorted(slices.Values(cores))
	var out []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		part := strconv.Itoa(sorted[i])
		if j > i {
			part += "-" + strconv.Itoa(sorted[j])
		}
		out = append(out, part)
		i = j + 1
	}
	return strings.Join(out, ",")
}

// without are the cores of all that are not among those.
func without(all, those []int) []int {
	return slices.DeleteFunc(slices.Clone(all), func(c int) bool { return slices.Contains(those, c) })
}
