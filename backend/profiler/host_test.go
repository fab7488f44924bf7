package profiler

import "testing"

func TestThisHost(t *testing.T) {
	if h := ThisHost(); h.CPU == "" || h.Processors < 1 || h != ThisHost() {
		t.Errorf("%+v", h)
	}
}

func TestCPUModel(t *testing.T) {
	for want, text := range map[string]string{
		"":                            "",
		"Example 9 @ 2.0GHz":          "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Example 9 @ 2.0GHz\n\nprocessor\t: 1\nmodel name\t: Example 9 @ 2.0GHz\n",
		"Big + Small":                 "model name: Big\nmodel name: Small\nmodel name: Big",
		"POWER9, altivec supported":   "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n",
		"ARM 0x41/0xd0c":              "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
		"ARM 0x41/0xd0c + ARM 0x41/1": "CPU implementer: 0x41\nCPU part: 0xd0c\nCPU implementer: 0x41\nCPU part: 1\n",
	} {
		if got := cpuModel(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
