//go:build k8s

package deploy

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// This file starts a real control plane of Kubernetes on loopback: etcd, kube-apiserver,
// kube-scheduler and kube-controller-manager, as scripts/test-k8s.sh has built them. There is no
// kubelet: nodes are objects that the test makes, and kubelet.go's stand-in says that pods which
// were bound run.

// binDir is where the binaries are.
func binDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SYMPHONY_K8S_BIN")
	if dir == "" {
		t.Fatal("SYMPHONY_K8S_BIN does not say where etcd and Kubernetes' binaries are: run make test-k8s")
	}
	return dir
}

// awaitMax is how long anything may take: the machine may be busy.
const awaitMax = 3 * time.Minute

// await asks until there is no error, or too long.
func await(t *testing.T, what string, ask func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(awaitMax); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("%s: after %v: %v", what, awaitMax, err)
}

// cluster is the control plane, and how to speak to it.
type cluster struct {
	dir        string
	config     *rest.Config
	kubeconfig string
	client     kubernetes.Interface
	dynamic    dynamic.Interface
}

const adminToken = "for-the-test-only"

// startCluster starts it; it ends with the test.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	etcd, peer, api := freePort(t), freePort(t), freePort(t)
	c.config = &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", api), BearerToken: adminToken, QPS: 500, Burst: 500,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}} // its certificate is its own
	c.kubeconfig = c.kubeconfigWith(t, "admin", adminToken)
	tokens := c.write(t, "tokens.csv", adminToken+",admin,admin,system:masters\n")
	key := c.write(t, "accounts.key", newKey(t))
	c.start(t, "etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls", address(etcd), "--advertise-client-urls", address(etcd), "--listen-peer-urls", address(peer), "--initial-advertise-peer-urls", address(peer),
		"--initial-cluster", "default="+address(peer))
	c.start(t, "kube-apiserver", "--etcd-servers", address(etcd), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", api), "--cert-dir", filepath.Join(c.dir, "certs"),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC", "--token-auth-file", tokens,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file", key, "--service-account-signing-key-file", key, "--allow-privileged=true")
	var err error
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	await(t, "kube-apiserver", func() error {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err
	})
	c.start(t, "kube-scheduler", "--kubeconfig", c.kubeconfig, "--authentication-kubeconfig", c.kubeconfig, "--authorization-kubeconfig", c.kubeconfig, "--leader-elect=false", "--secure-port=0")
	c.start(t, "kube-controller-manager", "--kubeconfig", c.kubeconfig, "--leader-elect=false", "--secure-port=0", "--service-account-private-key-file", key,
		"--node-monitor-grace-period=24h", "--node-startup-grace-period=24h", "--controllers=*")
	await(t, "the namespace default with its service account", func() error {
		_, err := c.client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return c
}

// kubeconfigWith is a file that says who asks.
func (c *cluster) kubeconfigWith(t *testing.T, name, token string) string {
	t.Helper()
	path := c.write(t, name+".kubeconfig", "")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{CurrentContext: "t", Contexts: map[string]*clientcmdapi.Context{"t": {Cluster: "t", AuthInfo: "t"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"t": {Server: c.config.Host, InsecureSkipTLSVerify: true}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"t": {Token: token}}}, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfigOf is that of a service account: it may do what its roles say.
func (c *cluster) kubeconfigOf(t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.kubeconfigWith(t, account, token.Status.Token)
}

func address(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// launch runs one of the binaries.
func (c *cluster) launch(bin, name string, args ...string) (*process, error) {
	p := &process{name: name, done: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(bin, name), args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.dir, p, p
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "SYMPHONY_TOKEN=hush"} // SYMPHONY_K8S_BIN would be read as configuration
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return p, nil
}

// start is launch until the test ends. Only what it started is ended.
func (c *cluster) start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p, err := c.launch(binDir(t), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("---- %s\n%s", name, p.tail(40))
		}
	})
	return p
}

// process is one that was started, with its output.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	text []byte
}

const outputMax = 1 << 20

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, b...)
	if len(p.text) > outputMax {
		p.text = append(p.text[:0], p.text[len(p.text)-outputMax/2:]...)
	}
	return len(b), nil
}

func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.text)
}

func (p *process) tail(n int) string {
	all := strings.Split(p.String(), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

func (c *cluster) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newKey(t *testing.T) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}))
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// aside runs f beside the test, and waits for its end when the test ends.
func aside(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
