package main

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/controlcmd"
)

// Models that do not fit into the GPUs that there are make a paged plan by themselves, which says why, and which symphony plan apply
// reads; resident ones stay; who wants all resident is told what to do, and one that is too large is named.
func TestPartitionPaged(t *testing.T) {
	file := fileOf(t, "models.csv", modelsCSV) // 1,000 MiB and 100 for a batch
	for _, c := range []partitionCmd{{GPUs: 1, Residency: "auto"}, {GPUs: 8, Clusters: "1", Residency: "auto"}, {GPUs: 8, Residency: "paged"}} {
		c.Models, c.Memory, c.JSON = file, "600MiB", "-"
		out, _, err := partitioned(t, c)
		if err != nil {
			t.Fatal(err)
		}
		d := planOf(t, out)
		if len(d.SubClusters) != 1 || len(d.SubClusters[0].Models) != 4 || d.SubClusters[0].Paged == "" {
			t.Errorf("%+v makes %s", c, out)
		}
		if spec, err := controlcmd.ParsePlan([]byte(out)); err != nil || len(spec.SubClusters) != 1 {
			t.Errorf("apply reads %+v, %v", spec, err)
		}
	}
	out, _, err := partitioned(t, partitionCmd{Models: file, Memory: "600MiB", GPUs: 1, Residency: "auto"})
	if err != nil || !strings.Contains(out, "paged: weights come to the GPUs and go as requests need them: 4 models take 1.08 GiB, and 1 sub-cluster of GPUs with 600.00 MiB each can hold 600.00 MiB") {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, _, err := partitioned(t, partitionCmd{Models: file, Memory: "600MiB", GPUs: 8, Residency: "auto", JSON: "-"}); err != nil || len(planOf(t, out).SubClusters) < 2 || strings.Contains(out, "paged") {
		t.Errorf("what fits into several sub-clusters: %v, %s", err, out)
	}
	staying := strings.Replace(strings.ReplaceAll(strings.Replace(modelsCSV, "cost\n", "cost,resident\n", 1), "5ms,1\n", "5ms,1,\n"), "5ms,1,\nb", "5ms,1,true\nb", 1)
	if out, _, err := partitioned(t, partitionCmd{Models: fileOf(t, "staying.csv", staying), Memory: "800MiB", GPUs: 1, Residency: "auto", JSON: "-"}); err != nil || planOf(t, out).SubClusters[0].Static != 400<<20 {
		t.Errorf("a resident model: %v, %s", err, out)
	}
	all := strings.ReplaceAll(strings.Replace(modelsCSV, "cost\n", "cost,resident\n", 1), "5ms,1\n", "5ms,1,true\n") // more stay than the GPUs have room for: no sub-cluster is left without a GPU
	if out, _, err := partitioned(t, partitionCmd{Models: fileOf(t, "all.csv", all), Memory: "600MiB", GPUs: 1, Residency: "auto", JSON: "-"}); err == nil || !strings.Contains(err.Error(), "mark fewer models resident") {
		t.Errorf("too many resident models: %v, %s", err, out)
	}
	for want, c := range map[string]partitionCmd{
		"--residency paged, if the devices": {Memory: "600MiB", GPUs: 1, Residency: "resident"},
		"model a alone asks for":            {Memory: "450MiB", GPUs: 1, Residency: "auto"},
	} {
		c.Models = file
		if _, _, err := partitioned(t, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
