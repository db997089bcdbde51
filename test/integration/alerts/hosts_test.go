//go:build alerts

package alerts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// breaksOfHosts: a program does not live with a new certificate, and its last one ends within the hour.
func breaksOfHosts() []broken {
	store := map[string]string{"store": "web"}
	return []broken{
		{
			alert: "ServingcertHostStoreRolledBack", labels: store, how: "a program on a host serves nothing with a new certificate",
			breaks: func(t *testing.T, w *world) { w.hostGoesBack(t) },
		},
		{alert: "ServingcertHostStoreNotReady", labels: map[string]string{"store": "web", "reason": "RolledBack"}, how: "so its host is not in step"},
		{alert: "ServingcertHostStoreEnding", labels: store, how: "and what it has ends in 30 minutes"},
	}
}

// hostGoesBack runs hostsync, with a program that has its first certificate only.
func (w *world) hostGoesBack(t *testing.T) {
	dir := w.dirOf("host") // it runs on
	from, config := filepath.Join(dir, "from"), filepath.Join(dir, "stores.yaml")
	ca := rotatortest.NewCA(t, 1, time.Now().Add(-time.Hour))
	first, second := ca.Issue(t, time.Now().Add(-30*time.Minute), "web.shop.svc"), ca.Issue(t, time.Now(), "web.shop.svc")
	hosttest.Write(t, from, hosttest.Files(t, ca, first))

	served, err := harness.FreeAddress()
	require.NoError(t, err)
	current := filepath.Join(dir, "stores", "web", "current")
	rotatortest.AcceptAt(w.t, served, rotatortest.Handshakes(&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(current, "tls.crt"), filepath.Join(current, "tls.key"))
		if err == nil && !pair.Leaf.Equal(first.Leaf) {
			err = errors.New("this one is not supported")
		}
		return &pair, err
	}}))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "stores:\n- {name: web, check: {address: %q, serverName: web.shop.svc, timeout: 1s}}\n", served), 0o600))
	metrics, err := harness.FreeAddress()
	require.NoError(t, err)
	p := &harness.Program{Path: filepath.Join(bin, "hostsync"), Args: []string{"--config=" + config, "--from=" + from, "--dir=" + filepath.Join(dir, "stores"), "--address=" + metrics}, NoHealth: true}
	p.Launch(w.t)
	p.StopAtEnd(w.t)
	w.scrapesHost(t, metrics)
	harness.Eventually(t, func() error {
		series, err := w.api().Query(t.Context(), `servingcert_host_store_ready{reason="Current"}`)
		if err == nil && len(series) != 1 {
			err = fmt.Errorf("the program does not serve its first certificate: %v", series)
		}
		return err
	})
	hosttest.Write(t, from, hosttest.Files(t, ca, second))
}
