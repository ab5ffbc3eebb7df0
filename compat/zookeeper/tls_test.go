package zookeeper

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/zk"
	"github.com/gregor-broker/gregor/wire/clock"
)

// authority signs the certificates of a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.cert, a.key = a.sign(t, "authority", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign writes NAME.pem, with the key unless it is the authority itself, and returns what it holds.
func (a *authority) sign(t *testing.T, name string, form *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form.SerialNumber, form.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	form.NotBefore, form.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	if a.cert != nil {
		pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		text = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	}
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := os.WriteFile(a.path(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name+".pem") }

// server returns the settings of a ZooKeeper that wants certificates at a port of localhost, besides the one in the clear.
func (a *authority) server(t *testing.T) (port int, settings map[string]string) {
	t.Helper()
	a.sign(t, "server", &x509.Certificate{DNSNames: []string{"localhost"}})
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port, map[string]string{
		"serverCnxnFactory":       "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress": "127.0.0.1", "secureClientPort": strconv.Itoa(port),
		"ssl.keyStore.location": a.path("server"), "ssl.trustStore.location": a.path("authority"),
		"ssl.hostnameVerification": "false", // of clients
		"authProvider.x509":        "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
	}
}

// TestTLS speaks to a server that wants certificates, and has the nodes' access follow from them.
func TestTLS(t *testing.T) {
	harness.Need(t, "java")
	noLeaks(t)
	a := newAuthority(t, t.TempDir())
	a.sign(t, "broker", &x509.Certificate{})
	port, settings := a.server(t)
	server := harness.StartEnsemble(t, settings)
	secure := func(name string, wait time.Duration, change func(*zk.TLS)) (*zk.Store, error) {
		o := zk.Options{Connect: net.JoinHostPort(name, strconv.Itoa(port)) + "/secure", SessionTimeout: sessionTimeout,
			SetACL: true, Clock: clock.System, Logger: logger(t),
			TLS: &zk.TLS{Keystore: a.path("broker"), Truststore: a.path("authority"), VerifyHostname: true}}
		o.ConnectionTimeout = wait
		change(o.TLS)
		return zk.Open(context.Background(), o)
	}
	s, err := secure("localhost", limit, func(*zk.TLS) {})
	if err != nil {
		t.Fatalf("%v\n%s", err, server.Log())
	}
	defer s.Close()
	for _, path := range []string{"/open", "/consumers", "/config", "/config/users"} {
		commit(t, s, store.Create(path, []byte("x"), store.Persistent), store.Set(path, []byte("y"), 0))
	}
	clear := open(t, server.Addr, "/secure")
	if n := read(t, clear, "/open"); string(n.Data) != "y" {
		t.Errorf("everybody may read: %+v", n)
	}
	commit(t, clear, store.Set("/consumers", nil, 1))
	_, err = clear.Commit(context.Background(), store.Set("/open", nil, 1))
	if store.FailedOp(err) != 0 || !strings.Contains(err.Error(), "access control list") {
		t.Errorf("a stranger's set: %v", err)
	}
	if _, err := clear.Read(context.Background(), store.Req{Path: "/config/users"}); err == nil || !strings.Contains(err.Error(), "access control list") {
		t.Errorf("a stranger's look at a secret: %v", err)
	}
	testRefusals(t, server, secure)
}

// testRefusals tries what must not work.
func testRefusals(t *testing.T, server *harness.Ensemble, secure func(string, time.Duration, func(*zk.TLS)) (*zk.Store, error)) {
	_, err := zk.Open(context.Background(), zk.Options{Connect: server.Addr + "/other", SetACL: true, Clock: clock.System})
	if err == nil || !strings.Contains(err.Error(), "must show a certificate") {
		t.Errorf("zookeeper.set.acl in the clear: %v", err)
	}
	refuses := func(words, name string, change func(*zk.TLS)) {
		t.Helper()
		var err error
		for wait := 500 * time.Millisecond; wait < limit; wait *= 2 { // so long as a busy machine takes to refuse
			if _, err = secure(name, wait, change); err == nil || strings.Contains(err.Error(), words) {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("connecting to %s: %v, want %q", name, err, words)
		}
	}
	refuses("certificate", "127.0.0.1", func(*zk.TLS) {})
	refuses("unknown authority", "localhost", func(o *zk.TLS) { o.Truststore = ""; o.VerifyHostname = false })
	if s, err := secure("127.0.0.1", limit, func(o *zk.TLS) { o.VerifyHostname = false }); err != nil {
		t.Errorf("a server of another name, whose name is not verified: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}
