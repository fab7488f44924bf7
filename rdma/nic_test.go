package rdma_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
)

// Whatever is missing, the error says what to do about it.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	auto := rdma.Config{GIDIndex: -1}
	for name, c := range map[string]struct {
		fabric fakeverbs.Config
		c      rdma.Config
		down   bool
		words  []string
	}{
		"no device":      {fakeverbs.Config{Devices: []string{}}, auto, false, []string{"RDMA", "a device", "symphony rdma list"}},
		"another name":   {fakeverbs.Config{}, rdma.Config{Device: "mlx5_7"}, false, []string{"mlx5_7"}},
		"no such port":   {fakeverbs.Config{}, rdma.Config{Port: 2, GIDIndex: -1}, false, []string{"fake0", "no port 2"}},
		"port down":      {fakeverbs.Config{}, auto, true, []string{"fake0", "port 1 is down", "network interface up", "cable"}},
		"all ports down": {fakeverbs.Config{Devices: []string{"fake0", "fake1"}}, auto, true, []string{"fake0", "fake1", "port 1 is down"}},
		"no such GID":    {fakeverbs.Config{}, rdma.Config{GIDIndex: 9}, false, []string{"fake0", "9"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakeverbs.New(c.fabric)
			if c.down {
				for _, nic := range []string{"fake0", "fake1"} {
					if n := f.Host("a").NIC(nic); n != nil {
						n.Down()
					}
				}
			}
			n, err := rdma.Open(f.Host("a"), c.c)
			if err == nil {
				n.Close()
			}
			says(t, err, c.words...)
			if name == "no device" && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v is not ErrUnsupported", err)
			}
			checkOpen(t, f)
		})
	}
}

// emptyGIDs is a device whose port has a table of GIDs, and nothing in it.
type emptyGIDs struct{ rdma.Verbs }

type emptyGIDDevice struct{ rdma.Device }

func (v emptyGIDs) Open(name string) (rdma.Device, error) {
	d, err := v.Verbs.Open(name)
	return emptyGIDDevice{d}, err
}

func (d emptyGIDDevice) GID(port, index int) (rdma.GID, error) { return rdma.GID{}, nil }

func TestAPortWithoutGIDs(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	_, err := rdma.Open(emptyGIDs{f.Host("a")}, rdma.Config{GIDIndex: -1})
	says(t, err, "fake0", "no GID", "give its network interface an address")
	_, err = rdma.Open(emptyGIDs{f.Host("a")}, rdma.Config{GIDIndex: 1})
	says(t, err, "fake0", "GID 1 of port 1 is empty", "symphony rdma list")
	checkOpen(t, f)
}

// Without a name, the first device whose port carries traffic; without an index,
// its IPv4 GID.
func TestOpenChooses(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{Devices: []string{"fake0", "fake1"}})
	f.Host("a").NIC("fake0").Down()
	n, err := rdma.Open(f.Host("a"), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	gid, at := n.GID()
	if n.Name() != "fake1" || at != 1 || !gid.IPv4() || n.MTU() != rdma.MTU4096 || n.ReadsAtOnce() != 16 {
		t.Errorf("%s, GID %d %v, MTU %d, %d READs", n.Name(), at, gid, n.MTU(), n.ReadsAtOnce())
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	ib := fakeverbs.New(fakeverbs.Config{InfiniBand: true})
	n, err = rdma.Open(ib.Host("a"), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	if gid, at := n.GID(); at != 0 || gid.IPv4() || gid == (rdma.GID{}) {
		t.Errorf("InfiniBand: GID %d %v", at, gid)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// What is still open is named, nothing is torn down under it, and a second try
// works.
func TestCloseOfANICInUse(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	_, s := open(t, f, rdma.Config{})
	if err := s.connection(small); err != nil {
		t.Fatal(err)
	}
	says(t, s.nic.Close(), "fake0", "1 connections and 1 regions are still open")
	if err := s.conn.PostReceives(s.receives(0, 1)); err != nil {
		t.Errorf("after a Close that was refused: %v", err)
	}
}

// After Close nothing can be made, and Close itself does nothing more.
func TestAClosedNIC(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	n, err := rdma.Open(f.Host("a"), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	p := n.NewPool(1 << 30)
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.NewConn(small, &witness{}); err != rdma.ErrClosed {
		t.Errorf("NewConn: %v", err)
	}
	mem, err := rdma.Map(4096, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Unmap(mem)
	if _, err := n.Register(mem, rdma.LocalWrite); err != rdma.ErrClosed {
		t.Errorf("Register: %v", err)
	}
	if _, ok := p.Alloc(1); ok || !errors.Is(p.Err(), rdma.ErrClosed) {
		t.Errorf("Alloc: %v, %v", ok, p.Err())
	}
	checkOpen(t, f)
}

// A peer whose endpoint cannot be reached is an error of Connect that names both.
func TestConnectToNonsense(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{})
	if err := s.connection(small); err != nil {
		t.Fatal(err)
	}
	err := s.conn.Connect(rdma.Endpoint{QPN: 1 << 24, MTU: rdma.MTU1024, MaxReads: 1})
	says(t, err, "fake0", "connecting queue pair")
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("%v hides the device's error", err)
	}
}
