package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// fused is an instruction of arm64 that multiplies and adds with one rounding.
var fused = regexp.MustCompile(`\(([^()]*\.go:\d+)\)\s+(FN?M(?:ADD|SUB)[DS])\b`)

// rounding are the packages on whose floating-point results decisions or records
// of a simulation hang: the cores, and what begins its searches and sums it up.
func rounding() []string {
	out := []string{"bench/report", "bench/sim/scenario"}
	for folder, r := range rooms() {
		// Preprocessing follows no simulation, and images are not compared by the bit.
		if r.class == core && folder != "frontend/preprocess" {
			out = append(out, folder)
		}
	}
	slices.Sort(out)
	return out
}

// TestNothingIsFused: one seed has one result on any machine, so no machine may
// round otherwise. The compiler of some (arm64) makes one operation with one
// rounding of a product and a sum; an explicit conversion of the product,
// float64(a*b) + c, keeps it from that.
func TestNothingIsFused(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for another machine")
	}
	args := []string{"build", "-gcflags=" + module + "/...=-S"}
	for _, folder := range rounding() {
		args = append(args, "./"+folder)
	}
	c := exec.Command("go", args...)
	c.Dir = "../.."
	c.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, listing)
	}
	if !regexp.MustCompile(`\bFMULD\b`).Match(listing) {
		t.Fatal("no product at all in the compiler's listing: is it one?")
	}
	seen := map[string]bool{}
	for _, m := range fused.FindAllSubmatch(listing, -1) {
		if at := string(m[1]); !seen[at] {
			seen[at] = true
			t.Errorf("%s: %s; write float64(a*b) + c", at, m[2])
		}
	}
}
