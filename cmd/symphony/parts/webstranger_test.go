package parts

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
)

// Strangers that come by HTTP, or by the disk.

// posts sends a body, and tells what it is answered.
func posts(path string, body text) func(*testing.T, string) string {
	return func(t *testing.T, port string) string {
		r, err := http.Post("http://"+port+path, "application/octet-stream", strings.NewReader(body()))
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		answer, _ := io.ReadAll(r.Body)
		return r.Status + " " + string(answer)
	}
}

// atOnce is n of them.
func atOnce(n int, one func(*testing.T, string) string) func(*testing.T, string) string {
	return func(t *testing.T, port string) string {
		var mu sync.Mutex
		var all strings.Builder
		var wait sync.WaitGroup
		for range n {
			wait.Go(func() {
				said := one(t, port)
				mu.Lock()
				defer mu.Unlock()
				all.WriteString(said + "\n")
			})
		}
		wait.Wait()
		return all.String()
	}
}

// slowBodies announces 64 MiB sixteen times, sends 9 KB of each, and waits.
func slowBodies(t *testing.T, port string) string {
	return atOnce(16, func(t *testing.T, port string) string {
		c, err := net.Dial("tcp", port)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "POST /v2/models/ResNet50/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 64<<20, strings.Repeat("x", 9<<10))
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	})(t, port)
}

// slowHeader never comes to its end.
func slowHeader(t *testing.T, port string) string {
	c, err := net.Dial("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, b := range []byte("GET /v2/health/live HTTP/1.1\r\nHost: ") {
		if _, err := c.Write([]byte{b}); err != nil {
			return err.Error()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ""
}

// unread asks often for much and takes nothing of it.
func unread(t *testing.T, port string) string {
	c, err := net.Dial("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(2 * time.Second))
	io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 20_000))
	time.Sleep(time.Second)
	return ""
}

// linksOut is a repository whose models are links to other places.
func linksOut(t *testing.T, _ string) (told string) {
	dir := t.TempDir()
	for name, to := range map[string]string{"passwd": "/etc", "above": "..", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	models, failed, err := repository.Load(dir)
	if err != nil || len(models) != 0 {
		t.Errorf("%v: %v", models, err)
	}
	for _, f := range failed {
		told += f.Error() + "\n"
	}
	return told
}
