package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// The test binary is also the processes that tests kill: etcd itself, and a leader.
const (
	childEtcd   = "STORE_TEST_ETCD"
	childLeader = "STORE_TEST_LEADER" // where etcd is
	childWriter = "STORE_TEST_WRITER" // folder of its etcd
)

func TestMain(m *testing.M) {
	if os.Getenv(childEtcd) != "" {
		etcdmain.Main(os.Args)
		return
	}
	if endpoint := os.Getenv(childLeader); endpoint != "" {
		fmt.Println(leadUntilKilled(endpoint))
		os.Exit(1)
	}
	if dir := os.Getenv(childWriter); dir != "" {
		fmt.Println(writeUntilKilled(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func leadUntilKilled(endpoint string) error {
	s, err := Open(context.Background(), Config{Endpoints: []string{endpoint}, LeaseTTL: 2 * time.Second})
	if err != nil {
		return err
	}
	if _, err := s.Campaign(context.Background(), schema.Leader{Name: "child"}); err != nil {
		return err
	}
	select {}
}

// writeUntilKilled leads, and creates models; each is a file in the folder when it is written.
func writeUntilKilled(dir string) error {
	s, err := Open(context.Background(), Config{Data: filepath.Join(dir, "data"), LeaseTTL: leaseMax})
	if err != nil {
		return err
	}
	lead, err := s.Campaign(context.Background(), schema.Leader{Name: "child"})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := s.Models.Create(context.Background(), model(fmt.Sprint(i)), lead.Guard()); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("written-", i)), nil, 0o600); err != nil {
			return err
		}
	}
}

// child starts the test binary as something else, and kills it at the end at the latest.
func child(t *testing.T, env string, args ...string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(t.TempDir(), "child.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if ended {
			return
		}
		ended = true
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("the end of the child's log: %s", text[max(0, len(text)-2000):])
		}
	}
	t.Cleanup(kill)
	return kill
}

// etcdAt is an etcd of its own, with its files in dir, on a port that stays the same.
type etcdAt struct {
	dir, scheme string
	port        int
	flags       []string
}

func newEtcd(t *testing.T, scheme string, flags ...string) *etcdAt {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &etcdAt{dir: t.TempDir(), scheme: scheme, port: l.Addr().(*net.TCPAddr).Port, flags: flags}
}

func (e *etcdAt) endpoint() string { return fmt.Sprintf("%s://127.0.0.1:%d", e.scheme, e.port) }

func (e *etcdAt) start(t *testing.T) (kill func()) {
	t.Helper()
	args := []string{"--name=test", "--data-dir=" + e.dir, "--listen-client-urls=" + e.endpoint(), "--advertise-client-urls=" + e.endpoint(),
		"--listen-peer-urls=unix://" + filepath.Join(e.dir, "peer"), "--log-level=warn"}
	return child(t, childEtcd+"=1", append(args, e.flags...)...)
}

// authority makes certificates, as files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca")
	return a
}

// issue makes NAME.crt and NAME.key; the first one is the authority's own.
func (a *authority) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: a.cert == nil}
	if a.cert == nil {
		a.cert, a.key = c, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write := func(ext, kind string, bytes []byte) string {
		path := filepath.Join(a.dir, name+ext)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write(".crt", "CERTIFICATE", der), write(".key", "EC PRIVATE KEY", secret)
}
