package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/watch/ui"
)

// UI is `symphony ui`.
type UI struct {
	File   string `arg:"" help:"A saved schedule: of the page's Save, of GET /ui/save, or of symphony sim --events." placeholder:"FILE"`
	Listen string `help:"Where the page is served." default:"127.0.0.1:0" placeholder:"HOST:PORT"`
	Open   bool   `help:"Open the browser." default:"true" negatable:""`
}

// Help says what there is to see.
func (UI) Help() string {
	return `Serves the page of the live picture with what FILE has, until Ctrl-C. A running scheduler
has its own page, at /ui of its admin address: symphony serve prints where.`
}

// Run serves the page until Ctrl-C.
func (c UI) Run() error {
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	return c.run(ctx, os.Stdout, browse)
}

func (c UI) run(ctx context.Context, out io.Writer, browse func(url string)) error {
	hub, err := openFile(c.File)
	if err != nil {
		return err
	}
	defer hub.Close()
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return cli.InUse(fmt.Errorf("--listen: %w", err), "--listen")
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	hub.Register(mux)
	server := &http.Server{Handler: ui.RefuseOtherSites(mux, c.Listen), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	url := "http://" + ln.Addr().String() + "/ui/"
	fmt.Fprintf(out, "%s is at %s until Ctrl-C\n", c.File, url)
	if c.Open {
		browse(url)
	}
	select {
	case <-ctx.Done():
		err = server.Close()
		<-ended
	case err = <-ended:
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// browse opens the browser, where there is a way to; the address is printed in any case.
func browse(url string) {
	name := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	if name == "" {
		name = "xdg-open"
	}
	if path, err := exec.LookPath(name); err == nil {
		cmd := exec.Command(path, url)
		if cmd.Start() == nil {
			go cmd.Wait() // it goes when it likes
		}
	}
}
