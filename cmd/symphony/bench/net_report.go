package bench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/bench/netbench"
	"github.com/symphony-serving/symphony/bench/plot"
)

// netReport is a Result and all that must stand beside it.
type netReport struct {
	provenance
	RDMA     string // the device, or why there is none
	Software bool   `json:",omitzero"` // the device is
	Caveat   string `json:",omitempty"`
	Strayed  string `json:",omitempty"` // what did not go by RDMA and should have
	*netbench.Result
}

func (c netCmd) report(w *netWays, r *netbench.Result) *netReport {
	rep := &netReport{provenance: newProvenance(), Software: w.software, Strayed: w.strayed(), Result: r}
	if w.nic == nil {
		rep.RDMA = fmt.Sprintf("none, TCP was measured alone: %v", w.why)
		return rep
	}
	_, gid := w.nic.GID()
	rep.RDMA = fmt.Sprintf("device %s, GID %d, MTU %d, polling %s", w.nic.Name(), gid, w.nic.MTU().Bytes(), c.Poll)
	if w.software {
		rep.Caveat = netbench.Caveat
	}
	return rep
}

func (r *netReport) print(to io.Writer) {
	if r.Caveat != "" {
		fmt.Fprintf(to, "%s\n\n", r.Caveat)
	}
	fmt.Fprintf(to, "$ %s\n%s, %s\n%s; client and servers on this host\nRDMA: %s\n", r.Command, r.Version, r.Time, r.Host, r.RDMA)
	if r.Strayed != "" {
		fmt.Fprintln(to, r.Strayed)
	}
	fmt.Fprintln(to)
	r.Print(to)
	if r.Software {
		fmt.Fprintln(to, "\nsoft-RoCE works in the kernel's threads, which are neither the client's nor the servers': only the machine's CPU holds its work.")
	}
}

// write makes the files.
func (r *netReport) write(folder, name string) error {
	base := filepath.Join(folder, name)
	if err := writeReport(base, r.print, r); err != nil {
		return err
	}
	if err := plot.Write(base, netbench.TailSize(), r.Tail(r.Caveat)); err != nil {
		return err
	}
	if p, ok := r.Latency(r.Caveat); ok {
		return plot.Write(base+"-latency", netbench.LatencySize(), p)
	}
	return nil
}

func (c netCmd) fileName(w *netWays) string {
	switch {
	case c.Name != "":
		return c.Name
	case w.nic != nil:
		return w.nic.Name()
	}
	return "tcp"
}

func checkFileName(name string) error {
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return fmt.Errorf("--name: %q is no file name; the folder is --out's", name)
	}
	return nil
}

// tryFolder makes the folder and finds out whether files can be made in it, before
// there are results to lose.
func tryFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ".try-*")
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		wrong.Op, wrong.Path = "make a file in", folder // the name is of no use
	}
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}
