package parts

import (
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// What a pool's configuration says of pages and starts reaches the backend.
func TestPoolsOfAConfiguration(t *testing.T) {
	got := Pools([]config.Pool{{DeviceType: "a", Kind: "emulated", Devices: 1, Strict: true, Paged: &config.Paged{Pages: 9}}, {DeviceType: "b", Kind: "cpu", Devices: 2}})
	if len(got) != 2 || !got[0].Strict || got[1].Strict || got[0].Paged == nil || got[0].Paged.Pages != 9 || got[1].Paged != nil {
		t.Errorf("%+v", got)
	}
}
