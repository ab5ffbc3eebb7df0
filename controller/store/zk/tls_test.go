package zk

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTLSRefusesInWords(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	encrypted := file("encrypted.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	empty := file("empty.pem", "")
	for words, o := range map[string]TLS{
		"zookeeper.ssl.keystore.type: " + dir + "/a.jks is a store of type JKS, only PEM": {Keystore: dir + "/a.jks"},
		"zookeeper.ssl.truststore.type: " + empty + " is a store of type PKCS12":          {Truststore: empty, TruststoreType: "PKCS12"},
		"no such file":                         {Keystore: dir + "/none.pem"},
		"is encrypted, which is not supported": {Keystore: encrypted, KeystoreType: "pem"},
		"has no certificate":                   {Truststore: empty},
		"failed to find any PEM data":          {Keystore: empty},
		`"TLSv1.1" given; allowed: TLSv1.2`:    {Protocols: []string{"TLSv1.1"}},
		`"NULL" is unknown`:                    {CipherSuites: []string{"NULL"}},
	} {
		if _, err := o.config("host"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want %q", o, err, words)
		}
	}
}

func TestTLSVersions(t *testing.T) {
	for _, test := range []struct {
		protocols []string
		min, max  uint16
	}{
		{nil, tls.VersionTLS12, tls.VersionTLS13},
		{[]string{"TLSv1.2"}, tls.VersionTLS12, tls.VersionTLS12},
		{[]string{"TLSv1.3", "TLSv1.2"}, tls.VersionTLS12, tls.VersionTLS13},
	} {
		o := TLS{Protocols: test.protocols, VerifyHostname: true}
		c, err := o.config("host")
		if err != nil || c.MinVersion != test.min || c.MaxVersion != test.max || c.ServerName != "host" || c.InsecureSkipVerify {
			t.Errorf("%v: %+v, %v", test.protocols, c, err)
		}
	}
}
