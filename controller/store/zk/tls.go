package zk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// TLS is how to speak to servers over TLS, after Kafka's zookeeper.ssl.* keys. Files are read anew for each connection, so a
// certificate can be renewed in place.
type TLS struct {
	Keystore       string   // keystore.location: a PEM file with the key, not encrypted, and its certificates; "" shows none
	KeystoreType   string   // keystore.type: "" or PEM
	Truststore     string   // truststore.location: a PEM file with the authorities to trust; "" trusts the system's
	TruststoreType string   // truststore.type: "" or PEM
	Protocols      []string // enabled.protocols, else protocol: TLSv1.2, TLSv1.3; none are both
	CipherSuites   []string // cipher.suites: for TLSv1.2; none are Go's
	VerifyHostname bool     // endpoint.identification.algorithm is HTTPS
}

// client makes a connection a TLS connection, and closes it if it cannot.
func (o *TLS) client(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	config, err := o.config(host)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with %s: %w", address, err), raw.Close())
	}
	return c, nil
}

// config reads the files. It fails in words that name the key to look at.
func (o *TLS) config(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host}
	if err := o.versions(config); err != nil {
		return nil, err
	}
	for _, name := range o.CipherSuites {
		suites := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
		i := slices.IndexFunc(suites, func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("zookeeper.ssl.cipher.suites: %q is unknown", name)
		}
		config.CipherSuites = append(config.CipherSuites, suites[i].ID)
	}
	if o.Truststore != "" {
		text, err := readPEM("zookeeper.ssl.truststore", o.Truststore, o.TruststoreType)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("zookeeper.ssl.truststore.location: %s has no certificate", o.Truststore)
		}
	}
	if o.Keystore != "" {
		certificate, err := o.certificate()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if !o.VerifyHostname {
		config.InsecureSkipVerify = true // for crypto/tls; the chain is verified all the same
		config.VerifyConnection = verifyChain(config.RootCAs)
	}
	return config, nil
}

func (o *TLS) versions(config *tls.Config) error {
	known := map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
	var versions []uint16
	for _, name := range o.Protocols {
		v, ok := known[name]
		if !ok {
			return fmt.Errorf("zookeeper.ssl.enabled.protocols: %q given; allowed: TLSv1.2, TLSv1.3", name)
		}
		versions = append(versions, v)
	}
	if len(versions) > 0 {
		config.MinVersion, config.MaxVersion = slices.Min(versions), slices.Max(versions)
	}
	return nil
}

func (o *TLS) certificate() (tls.Certificate, error) {
	text, err := readPEM("zookeeper.ssl.keystore", o.Keystore, o.KeystoreType)
	if err != nil {
		return tls.Certificate{}, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
			return tls.Certificate{}, fmt.Errorf("zookeeper.ssl.keystore.location: the key in %s is encrypted, which is not supported; "+
				"decrypt it (openssl pkey -in %s -out …) and restrict the file's permissions", o.Keystore, o.Keystore)
		}
	}
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("zookeeper.ssl.keystore.location: %s: %w", o.Keystore, err)
	}
	return certificate, nil
}

// readPEM reads a store of certificates that must be PEM, by its type or, without one, its name.
func readPEM(keys, path, kind string) ([]byte, error) {
	if kind == "" {
		switch ext := strings.ToLower(filepath.Ext(path)); ext {
		case ".jks", ".p12", ".pfx", ".pkcs12", ".bcfks":
			kind = ext[1:]
		}
	}
	if kind != "" && !strings.EqualFold(kind, "PEM") {
		return nil, fmt.Errorf("%s.type: %s is a store of type %s, only PEM is supported; "+
			"convert it (keytool -importkeystore to PKCS12, then openssl pkcs12 -nodes)", keys, path, strings.ToUpper(kind))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s.location: %w", keys, err)
	}
	return text, nil
}

// verifyChain verifies everything about a server's certificate but its name.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}
