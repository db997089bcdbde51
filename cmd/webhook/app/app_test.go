package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrongFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tls.crt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tc := range []struct {
		cfg  Config
		says string
	}{
		{Config{CertDir: "", Port: 9443}, `--cert-dir: "": must be a directory`},
		{Config{CertDir: file, Port: 9443}, "is a file: must be the directory that contains tls.crt and tls.key"},
		{Config{CertDir: "x", Port: 0}, `--port: "0": must be between 1 and 65535`},
		{Config{CertDir: "x", Port: 65536}, `--port: "65536": must be between 1 and 65535`},
		{Config{CertDir: "x", Port: 1}, `--default-mode: "": must be "args", "env" or "mount"`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "flags"}, `--default-mode: "flags": must be "args", "env" or "mount"`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env"}, `--unknown-programs: "": must be "files" or "flags"`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files"}, `--trust-source: "": must be "configmap" or "clustertrustbundle"`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", TrustDomain: "Shop"}, `--trust-domain: "Shop": must be a DNS name in lower case`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", ProxyImage: "a b"}, `--proxy-image: "a b": must be an image such as registry.example/servingcert/proxy@sha256:…, without spaces`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", ProxyPullSecrets: []string{"a", "B"}}, `--proxy-pull-secrets: "B": must be names of Secrets, separated by commas`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", ProxyResources: "limits.cpu=9"}, `--proxy-resources: "limits.cpu=9": limits.cpu must be between 50m and 8`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "ConfigMap"}, `--trust-source: "ConfigMap": must be "configmap" or "clustertrustbundle"`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", BindAddress: "localhost"}, `--bind-address: "localhost": must be an IP address`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", ShutdownDelay: -time.Second}, `--shutdown-delay: "-1s": must be between 0s and 10m0s`},
		{Config{CertDir: "x", Port: 1, DefaultMode: "env", UnknownPrograms: "files", TrustSource: "configmap", ShutdownDelay: time.Hour}, `--shutdown-delay: "1h0m0s": must be between 0s and 10m0s`},
	} {
		assert.ErrorContains(t, tc.cfg.validate(), tc.says)
	}
	assert.NoError(t, Config{CertDir: "not-there-yet", Port: 9443, DefaultMode: "args", UnknownPrograms: "files", TrustSource: "clustertrustbundle", BindAddress: "::1"}.validate())
}
