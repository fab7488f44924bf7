package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The plainest command of the exec scaler starts `symphony backend` for each replica that is missing.
// The backend inherits the command's environment, with what the scaler tells it, and serves.
func TestTheExecScalersCommandStartsBackends(t *testing.T) {
	model := emulated{"m", 0.5, 5, "100ms"}
	p := newPlanned(t, nil, 1, model)
	pool := write(t, plannedPool, filepath.Join(p.folder, "cache-more"), 1)
	script := filepath.Join(p.folder, "scale.sh")
	pids := filepath.Join(p.folder, "pids")
	text := fmt.Sprintf(`#!/bin/sh
for i in $(seq 1 $(($1 - 1))); do
  [ -e %[1]s/started-$i ] && continue
  : > %[1]s/started-$i
  setsid %[2]s backend -c %[3]s --scheduler tcp:%[4]s --name gpu-$i --set backend.cache=%[1]s/cache-gpu-$i > %[1]s/gpu-$i.log 2>&1 < /dev/null &
  echo $! >> %[5]s
done
`, p.folder, symphony, pool, p.cluster.address, pids)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endAll(t, pids) })
	for _, set := range []string{"scaler=exec", "command=" + script + ",{size}", "min=3", "max=3", "interval=1s", "cool_up=1s", "lead=3s"} {
		p.flags = append(p.flags, "--set", "control.autoscale."+set)
	}
	p.flags = append(p.flags, "--data", t.TempDir())
	p.startController()
	p.backends = append(p.backends, nil)
	p.startBackend(0)
	p.addAll(p.models)
	eventually(t, 90*time.Second, "the replicas that the command started serve", func() error {
		ctx, cancel := p.call()
		defer cancel()
		a, err := p.control.Advice(ctx)
		if err != nil {
			return err
		}
		if len(a.Groups) != 1 || a.Groups[0].Serving != 3 {
			logs := ""
			for i := 1; i <= 2; i++ {
				text, _ := os.ReadFile(filepath.Join(p.folder, fmt.Sprintf("gpu-%d.log", i)))
				logs += tail(string(text), 3)
			}
			return fmt.Errorf("%+v; the backends' logs:\n%s", a.Groups, logs)
		}
		return nil
	})
}

// endAll ends the processes whose ids a file has, a line each.
func endAll(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, line := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
