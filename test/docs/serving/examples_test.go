//go:build unix && examples

package serving

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

var required = flag.String("require", "", "commands that must be installed, such as javac,node,python3,nginx: if one is missing, its example fails instead of being skipped")

// example is an example of the page.
type example struct {
	name string
	file string
	// needs are the required commands.
	needs []string
	// listen is the address in the file; on replaces it in the test, with PORT for the port. Nothing else
	// in the file differs from the page.
	listen, on string
	// run returns the command line that runs a copy of the file.
	run func(t *testing.T, file string) []string
	// flags: it supports flags in addition to the environment.
	flags bool
	// lingers: after a renewal, it may serve both the old and the new certificate for a moment.
	lingers bool
}

func examples() []example {
	return []example{
		{name: "Go", file: "go/main.go", needs: []string{"go"}, listen: `":8443"`, on: `"127.0.0.1:PORT"`, run: build, flags: true},
		{name: "Java", file: "java/Server.java", needs: []string{"java", "javac"},
			listen: "new InetSocketAddress(8443)", on: `new InetSocketAddress("127.0.0.1", PORT)`, run: with("java"), flags: true},
		{name: "Python", file: "python/server.py", needs: []string{"python3"}, listen: `("", 8443)`, on: `("127.0.0.1", PORT)`, run: with("python3"), flags: true},
		{name: "Node", file: "node/server.js", needs: []string{"node"}, listen: "listen(8443)", on: `listen(PORT, "127.0.0.1")`, run: with("node"), flags: true},
		{name: "nginx", file: "nginx/nginx.sh", needs: []string{"nginx"}, listen: "listen 8443", on: "listen 127.0.0.1:PORT", run: with("sh"), lingers: true},
	}
}

// with runs the file with an interpreter.
func with(command string) func(*testing.T, string) []string {
	return func(_ *testing.T, file string) []string { return []string{command, file} }
}

// build compiles the file.
func build(t *testing.T, file string) []string {
	program := filepath.Join(filepath.Dir(file), "server")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return []string{program}
}

// missing returns the required commands that are not installed.
func (e example) missing() []string {
	return slices.DeleteFunc(slices.Clone(e.needs), func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
}

// A required command that no example needs would have no effect.
func TestRequiredCommandsAreKnown(t *testing.T) {
	var known []string
	for _, e := range examples() {
		known = append(known, e.needs...)
	}
	for _, name := range requiredCommands() {
		assert.Contains(t, known, name, "-require")
	}
}

func requiredCommands() []string {
	return strings.FieldsFunc(*required, func(r rune) bool { return r == ',' })
}

// TestRenewal tests each example with a renewal, a pair of files that do not match, and the next renewal,
// with another kind of key each time. No connection may fail.
func TestRenewal(t *testing.T) {
	each(t, func(t *testing.T, e example) {
		if e.flags {
			renew(t, e, asFlags)
		} else {
			renew(t, e, asEnvironment)
		}
	})
}

// Each example finds the files by environment variables.
func TestEnvironment(t *testing.T) {
	each(t, func(t *testing.T, e example) {
		newScene(t, e, asEnvironment)
	})
}

// each runs a test for every example whose runtime is installed.
func each(t *testing.T, test func(*testing.T, example)) {
	for _, e := range examples() {
		if missing := e.missing(); len(missing) > 0 {
			t.Logf("the example for %s was not run: %s not installed", e.name, strings.Join(missing, ", "))
			for _, name := range missing {
				assert.NotContains(t, requiredCommands(), name, "required and not installed: the example for %s was not tested", e.name)
			}
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// passFiles returns the arguments and the environment with which a server gets the paths of its files.
type passFiles func(cert, key string) (args, env []string)

func asFlags(cert, key string) (args, env []string) {
	return []string{"--tls-cert-file=" + cert, "--tls-private-key-file=" + key}, nil
}

func asEnvironment(cert, key string) (args, env []string) {
	return nil, []string{"TLS_CERT_FILE=" + cert, "TLS_PRIVATE_KEY_FILE=" + key}
}

func renew(t *testing.T, e example, pass passFiles) {
	s := newScene(t, e, pass)
	first, second, third := s.served, s.ca.issue(t, pki.RSA2048), s.ca.issue(t, pki.Ed25519)
	allowed := []string{first.serial(), second.serial()}
	until := func(state string, reached func(serial string) bool) {
		t.Helper()
		s.getUntil(t, state, func(serial string) bool {
			assert.Contains(t, allowed, serial)
			return reached(serial)
		})
	}
	second.write(t, s.volume)
	until("the renewed certificate is served", second.isServed)

	broken := s.ca.issue(t, pki.ECDSAP256)
	broken.key = first.key
	broken.write(t, s.volume)
	if !e.lingers {
		allowed = allowed[1:]
	}
	until("the server logs that it keeps the old certificate", func(string) bool {
		return strings.Contains(s.server.output(), "keeping the old certificate")
	})
	until("the old certificate is served", second.isServed)

	third.write(t, s.volume)
	allowed = append(allowed, third.serial())
	until("the next certificate is served", third.isServed)
}

// copyTo returns a copy of the file that listens on the port of loopback.
func (e example) copyTo(t *testing.T, port string) string {
	text := read(t, e.file)
	require.Equal(t, 1, strings.Count(text, e.listen), "%s contains %s once", e.file, e.listen)
	file := filepath.Join(t.TempDir(), filepath.Base(e.file))
	text = strings.Replace(text, e.listen, strings.Replace(e.on, "PORT", port, 1), 1)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
