package process

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// run runs a command of one flag, --size, that must not be negative.
func run(leads bool, runs func(context.Context) error, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	size := 0
	code = Main(args, &out, &err, Command{
		Name: "sizer", About: "sizer has a size.", Common: NewCommon(leads),
		Flags: func(fs *pflag.FlagSet) { fs.IntVar(&size, "size", 1, "a size") },
		Validate: func() error {
			if size < 0 {
				return errors.New("--size: must be\n0 or more")
			}
			return nil
		},
		Run: runs,
	})
	return code, out.String(), err.String()
}

func TestWrongFlagsAreOneLineAndExit2(t *testing.T) {
	never := func(context.Context) error { panic("started") }
	for args, want := range map[string]string{
		"--nonsense":             "unknown flag: --nonsense",
		"--size=big":             `invalid argument "big" for "--size"`,
		"--size=-1":              "--size: must be 0 or more",
		"extra":                  `unexpected argument "extra"`,
		"--namespace=No_Name":    `--namespace: "No_Name": not a valid namespace name`,
		"--cluster-domain=-":     `--cluster-domain: "-": not a valid DNS name`,
		"--kube-api-qps=-1":      `--kube-api-qps: "-1": must be 0 (no limit) or more`,
		"--metrics-addr=nowhere": `--metrics-addr: "nowhere": must be HOST:PORT, :PORT or 0`,
		"--metrics-insecure":     `--metrics-addr: ":8443": must have a loopback IP address with --metrics-insecure, such as 127.0.0.1:8080 or [::1]:8080`,
		"--metrics-insecure --metrics-addr=0.0.0.0:80":     `--metrics-addr: "0.0.0.0:80": must have a loopback IP address with --metrics-insecure`,
		"--metrics-insecure --metrics-addr=10.0.0.1:80":    `--metrics-addr: "10.0.0.1:80": must have a loopback IP address with --metrics-insecure`,
		"--metrics-insecure --metrics-addr=[::]:80":        `--metrics-addr: "[::]:80": must have a loopback IP address with --metrics-insecure`,
		"--metrics-insecure --metrics-addr=localhost:80":   `--metrics-addr: "localhost:80": must have a loopback IP address with --metrics-insecure`,
		"--metrics-insecure --metrics-addr=127.0.0.1.x:80": `--metrics-addr: "127.0.0.1.x:80": must have a loopback IP address with --metrics-insecure`,
		"--metrics-cert-dir=":                              `--metrics-cert-dir: "": must be a directory`,
		"--metrics-cert-dir=process_test.go":               `--metrics-cert-dir: "process_test.go": is a file: must be the directory that contains tls.crt and tls.key`,
		"--health-addr=1.2.3.4":                            `--health-addr: "1.2.3.4": must be HOST:PORT, :PORT or 0`,
		"--max-connections=15":                             `--max-connections: "15": must be between 16 and 10000`,
		"--max-connections=10001":                          `--max-connections: "10001": must be between 16 and 10000`,
		"--max-connections=many":                           `invalid argument "many" for "--max-connections"`,
		"--log-level=loud":                                 `--log-level: "loud": must be debug, info, warn or error`,
		"--log-format=xml":                                 `--log-format: "xml": must be text or json`,
		"--leader-elect=certainly":                         `invalid argument "certainly" for "--leader-elect"`,
		"--kubeconfig --size=1 more":                       `unexpected argument "more"`,
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := run(true, never, strings.Fields(args)...)
			assert.Equal(t, ExitUsage, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, want)
			assert.True(t, strings.HasPrefix(stderr, "sizer: "), stderr)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}

func TestRightFlags(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for _, args := range []string{
		"--metrics-cert-dir=not-there-yet",
		"--metrics-insecure --metrics-addr=127.0.0.1:8080",
		"--metrics-insecure --metrics-addr=127.9.9.9:8080",
		"--metrics-insecure --metrics-addr=[::1]:8080",
		"--metrics-insecure --metrics-addr=127.0.0.1:8080 --metrics-cert-dir=", // not used
		"--metrics-insecure --metrics-addr=0",
		"--metrics-addr=0 --metrics-cert-dir=",
	} {
		code, _, stderr := run(true, nothing, strings.Fields(args)...)
		assert.Equal(t, ExitOK, code, "%s: %s", args, stderr)
	}
}

// --version starts nothing, and ignores missing and wrong flags.
func TestVersion(t *testing.T) {
	started := func(context.Context) error { return errors.New("it was started") }
	code, stdout, stderr := run(true, started, "--version")
	assert.Equal(t, ExitOK, code, stderr)
	assert.Regexp(t, `^sizer \S+ \(commit \S+, go\S+, \w+/\w+\)\n$`, stdout)
	assert.Empty(t, stderr)
}

func TestHelpListsEveryFlag(t *testing.T) {
	code, stdout, stderr := run(true, nil, "--help")
	assert.Equal(t, ExitOK, code)
	assert.Empty(t, stderr)
	for _, flag := range []string{"kubeconfig", "kube-api-qps", "namespace", "cluster-domain", "metrics-addr", "metrics-cert-dir", "metrics-insecure", "health-addr", "max-connections", "leader-elect", "log-level", "log-format", "size"} {
		assert.Contains(t, stdout, "--"+flag+" ")
	}
	assert.Contains(t, stdout, "Lease servingcert-sizer")
	_, stdout, _ = run(false, nil, "--help")
	assert.Contains(t, stdout, "no effect")
}

func TestExitCodeOfARun(t *testing.T) {
	code, _, _ := run(true, func(context.Context) error { return nil })
	assert.Equal(t, ExitOK, code)
	code, _, stderr := run(true, func(context.Context) error { return errors.New("the disk is full") })
	assert.Equal(t, ExitError, code)
	assert.Equal(t, "sizer: the disk is full\n", stderr)
}
