package frontend

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// manyModels is a client with n models of two versions each, on 64 sub-clusters; a tenth of
// the names have shares.
func manyModels(b *testing.B, n int) (*canary, func(id int) catalog.Served) {
	k := &canary{Client: alone(b, nil), l: &fakeLink{}}
	k.tell(k.l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
	served := func(id int) catalog.Served {
		return catalog.Served{ID: wire.ModelID(id), DeviceType: "e", SubCluster: fmt.Sprint(id % 64),
			Spec: catalog.ModelSpec{Name: fmt.Sprintf("m%05d", id/2), Version: fmt.Sprint(1 + id%2), SLO: mono.Second, Inputs: vector(1), Outputs: vector(1)}}
	}
	for from := 0; from < 2*n; from += catalog.ModelsMax {
		var ch catalog.Changes
		for id := from; id < min(2*n, from+catalog.ModelsMax); id++ {
			ch.Models = append(ch.Models, served(id))
			if id%20 == 0 {
				ch.Names = append(ch.Names, catalog.Name{Name: fmt.Sprintf("m%05d", id/2), Shares: []catalog.Share{{Version: "1", Weight: 90}, {Version: "2", Weight: 10}}})
			}
		}
		k.change(ch)
	}
	for s := range 64 {
		k.change(catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", SubCluster: fmt.Sprint(s), GPUs: 1}}})
	}
	return k, served
}

// BenchmarkChange is what a change of one model costs the frontend, beside n others.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k, served := manyModels(b, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k.change(catalog.Changes{Models: []catalog.Served{served(i % n)}})
			}
		})
	}
}

// BenchmarkChooseScheduler is what the choice of a scheduler, and of a version there, costs a
// request: by how many schedulers there are, and how many of them have the model.
func BenchmarkChooseScheduler(b *testing.B) {
	for _, k := range []struct{ schedulers, have int }{{1, 1}, {2, 1}, {2, 2}, {8, 1}} {
		b.Run(fmt.Sprintf("%d-of-%d", k.have, k.schedulers), func(b *testing.B) {
			h, r := newHave(b, k.schedulers), Request{Model: "m"}
			for i := range k.have {
				h.tell(i, catalog.Served{ID: 1, DeviceType: "e", Spec: specOf("m", "1")})
			}
			b.ReportAllocs()
			for b.Loop() {
				if m, err := h.admit(&r); m == nil || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChoose is what the choice of a version costs a request.
func BenchmarkChoose(b *testing.B) {
	k, _ := manyModels(b, 1000)
	for what, name := range map[string]string{"shares": "m00000", "highest": "m00001"} {
		b.Run(what, func(b *testing.B) {
			r := Request{Model: name}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if m, err := k.admit(&r); m == nil || err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
