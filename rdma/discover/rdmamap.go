package discover

import (
	"slices"
	"sync"

	"github.com/Mellanox/rdmamap"
)

// rdmamapPaths guards rdmamap's folders, which are variables of that package: it
// has no other way to be told of a root.
var rdmamapPaths sync.Mutex

// mapped asks rdmamap for the devices, and for each its character devices and ports.
func (t tree) mapped() (names []string, chars, ports map[string][]string) {
	rdmamapPaths.Lock()
	defer rdmamapPaths.Unlock()
	for _, p := range []*string{
		&rdmamap.RdmaClassDir, &rdmamap.RdmaIbUcmDir, &rdmamap.RdmaUmadDir,
		&rdmamap.RdmaUverbsDir, &rdmamap.RdmaUcmDevice,
	} {
		before := *p
		*p = t.path(before)
		defer func() { *p = before }()
	}
	names = rdmamap.GetRdmaDeviceList()
	slices.Sort(names)
	chars, ports = map[string][]string{}, map[string][]string{}
	for _, name := range names {
		// The names stay those within root: RdmaDeviceDir is not moved. Only rdma_cm,
		// which is no device's own, is looked for as a file, and left out here.
		for _, c := range rdmamap.GetRdmaCharDevices(name) {
			if c != rdmamap.RdmaUcmDevice {
				chars[name] = append(chars[name], c)
			}
		}
		slices.Sort(chars[name])
		ports[name] = rdmamap.GetPorts(name)
	}
	return names, chars, ports
}
