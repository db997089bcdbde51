// Command step-ca is step-ca's server, and a client that has it issue a certificate or renew it, as step
// does. The keys of its CA are files: step-ca's own command needs the clients of three clouds.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/smallstep/certificates/api"
	"github.com/smallstep/certificates/authority/config"
	"github.com/smallstep/certificates/ca"
	"github.com/smallstep/certificates/cas/apiv1"
	_ "github.com/smallstep/certificates/cas/softcas"
	"github.com/smallstep/certificates/pki"
	"go.step.sm/crypto/pemutil"
)

const usage = `usage: step-ca serve ADDRESS         with a CA in $STEPPATH, which is made if there is none
       step-ca issue ADDRESS NAME    writes tls.crt, tls.key and ca.crt to the working directory; renews a tls.crt that is there`

// provisioner is who may request certificates, with a password that protects nothing but a test.
const provisioner = "e2e"

var password = []byte("e2e")

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "serve":
		err = serve(args[1])
	case len(args) == 3 && args[0] == "issue":
		err = issue(args[1], args[2])
	default:
		err = errors.New(usage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(address string) error {
	path := filepath.Join(pki.GetConfigPath(), "ca.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(address); err != nil {
			return err
		}
	}
	cfg, err := config.LoadConfiguration(path)
	if err != nil {
		return err
	}
	server, err := ca.New(cfg, ca.WithConfigFile(path), ca.WithPassword(password))
	if err != nil {
		return err
	}
	return server.Run()
}

// create makes a root and an intermediate, as step ca init does.
func create(address string) error {
	p, err := pki.New(apiv1.Options{Type: apiv1.SoftCAS, IsCreator: true}, pki.WithAddress(address), pki.WithDNSNames([]string{"127.0.0.1"}), pki.WithProvisioner(provisioner))
	if err != nil {
		return err
	}
	if err := p.GenerateKeyPairs(password); err != nil {
		return err
	}
	root, err := p.GenerateRootCertificate("e2e", "e2e", "e2e", password)
	if err != nil {
		return err
	}
	if err := p.GenerateIntermediateCertificate("e2e", "e2e", "e2e", root, password); err != nil {
		return err
	}
	return p.Save()
}

func issue(address, name string) error {
	url, root := "https://"+address, filepath.Join(pki.GetPublicPath(), "root_ca.crt")
	if _, err := os.Stat("tls.crt"); err == nil {
		return renew(url, root)
	}
	p, err := ca.NewProvisioner(provisioner, "", url, password, ca.WithRootFile(root))
	if err != nil {
		return err
	}
	token, err := p.Token(name)
	if err != nil {
		return err
	}
	request, key, err := ca.CreateSignRequest(token)
	if err != nil {
		return err
	}
	answer, err := p.Sign(request)
	if err != nil {
		return err
	}
	if _, err := pemutil.Serialize(key, pemutil.ToFile("tls.key", 0o600)); err != nil {
		return err
	}
	rootPEM, err := os.ReadFile(root)
	if err != nil {
		return err
	}
	if err := os.WriteFile("ca.crt", rootPEM, 0o600); err != nil {
		return err
	}
	return writeChain(answer)
}

// renew presents the certificate to the server, which signs another one for its key.
func renew(url, root string) error {
	pair, err := tls.LoadX509KeyPair("tls.crt", "tls.key")
	if err != nil {
		return err
	}
	rootPEM, err := os.ReadFile(root)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(rootPEM)
	client, err := ca.NewClient(url, ca.WithRootFile(root))
	if err != nil {
		return err
	}
	answer, err := client.Renew(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}})
	if err != nil {
		return err
	}
	return writeChain(answer)
}

func writeChain(answer *api.SignResponse) error {
	var chain []byte
	for _, c := range answer.CertChainPEM {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return os.WriteFile("tls.crt", chain, 0o600)
}
