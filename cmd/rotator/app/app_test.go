package app

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/cmd/internal/process"
)

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Equal(t, process.ExitOK, process.Main([]string{"--help"}, &stdout, &stderr, command(defaults())))
	assert.Empty(t, stderr.String())
	for _, word := range []string{"servingcert-ca.crt", "servingcert-ca-status", "servingcert-trust-status", "Lease servingcert-rotator", "Lease servingcert-trust", "--controllers", "--kubeconfig", "--namespace", "--workers", "--max-backoff", "servingcert.dev/Serving", "--verify-consumers", "--verify-interval", "--propagation-time", "--probe-concurrency", "--probe-timeout"} {
		assert.Contains(t, stdout.String(), word)
	}
}

func TestWrongFlags(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--nonsense"}, "unknown flag: --nonsense"},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"--workers=0"}, `rotator: --workers: "0": must be at least 1`},
		{[]string{"--controllers=trust,nodes"}, `rotator: --controllers: "nodes": unknown: must be one or both of trust, pods`},
		{[]string{"--controllers=pods,pods"}, `--controllers: "pods": listed twice`},
		{[]string{"--controllers="}, `--controllers: "": must list at least one of trust, pods`},
		{[]string{"--targets=Secret"}, `--targets: "Secret": unknown kind of target: must be one of NamespaceConfigMap, `},
		{[]string{"--targets=NamespaceConfigMap,ConfigMap"}, `--targets: "NamespaceConfigMap,ConfigMap": must include MutatingWebhookConfiguration, which servingcert itself needs`},
		{[]string{"--targets=MutatingWebhookConfiguration"}, `--targets: "MutatingWebhookConfiguration": must include NamespaceConfigMap, which`},
		{[]string{"--targets="}, `--targets: "": must list at least one of NamespaceConfigMap, `},
		{[]string{"--public-roots=testdata/none.pem"}, `--public-roots: open testdata/none.pem: no such file or directory`},
		{[]string{"--public-roots=app.go"}, `--public-roots: "app.go": certificate 1: not PEM: must be a file with root certificates in PEM, without private keys or text, and of at most 384 KiB`},
		{[]string{"--public-roots=/dev/zero"}, `--public-roots: "/dev/zero": 393217 bytes: must be at most 393216`},
		{[]string{"--workers=many"}, "invalid argument"},
		{[]string{"--max-backoff=1ms"}, `--max-backoff: "1ms": must be at least 100ms`},
		{[]string{"--verify-interval=1ms"}, `--verify-interval: "1ms": must be at least 1s`},
		{[]string{"--propagation-time=0"}, `--propagation-time: "0s": must be at least 1s`},
		{[]string{"--probe-concurrency=0"}, `--probe-concurrency: "0": must be from 1 to 512`},
		{[]string{"--probe-timeout=2m"}, `--probe-timeout: "2m0s": must be from 10ms to 1m`},
		{[]string{"--pod-cidrs=10.0.0.0/8,web"}, `--pod-cidrs: "web": must be a range of IP addresses, such as 10.244.0.0/16`},
		{[]string{"--pod-cidrs=10.244.1.0/16"}, `--pod-cidrs: "10.244.1.0/16": has bits set beyond the prefix length: must be 10.244.0.0/16`},
		{[]string{"--max-restarts=-1"}, `--max-restarts: "-1": must not be negative`},
		{[]string{"--namespace=No_Name"}, `--namespace: "No_Name"`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, process.ExitUsage, process.Main(tt.args, &stdout, &stderr, command(defaults())))
			assert.Empty(t, stdout.String())
			assert.Contains(t, stderr.String(), tt.want)
			assert.Equal(t, 1, bytes.Count(stderr.Bytes(), []byte("\n")), "one line: %q", stderr.String())
		})
	}
}

func TestNoAPIServer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"--kubeconfig=testdata/no-such-file", "--metrics-addr=0", "--health-addr=0"}
	assert.Equal(t, process.ExitError, process.Main(args, &stdout, &stderr, command(defaults())))
	assert.Contains(t, stderr.String(), "no-such-file")
}

func TestAPIServer(t *testing.T) {
	for host, want := range map[string]string{
		"https://10.96.0.1:443": "10.96.0.1", "https://[fd00::1]:6443": "fd00::1", "10.96.0.1:443": "10.96.0.1", "https://10.96.0.1": "10.96.0.1",
		"10.96.0.1": "10.96.0.1", "https://api.example.com:6443": "", "": "",
	} {
		got := ""
		for _, address := range apiServer(host) {
			got += address.String()
		}
		assert.Equal(t, want, got, host)
	}
}
