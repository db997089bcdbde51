package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// clientTime is the timeout of a connection, which has to succeed or to be refused.
const clientTime = process.Soon

// stack is a TLS implementation.
type stack struct {
	name    string   // for the table
	needs   []string // commands without which it is missing
	version []string // a command that prints the version in its first line
	openSSL bool     // verifies with OpenSSL
	// needsLast: it finds a root only by the subject and the issuer of the last served certificate
	// (GnuTLS, gnutls_x509_trust_list_verify_crt2).
	needsLast bool
	// unconstrainedRoots: it does not apply the name constraints of the root of a path (Java,
	// java.security.cert.TrustAnchor).
	unconstrainedRoots bool
	// unconstrainedURIs: it does not apply name constraints of URIs that two certificates of the path
	// have (GnuTLS 3.7.9).
	unconstrainedURIs bool
	// mldsa: it verifies ML-DSA signatures (Go since 1.27; OpenSSL since 3.5 is not tested here).
	mldsa bool
	// connect runs all attempts, and returns their outcomes in the same order.
	connect func(context.Context, []attempt) ([]outcome, error)
}

// attempt describes a connection.
type attempt struct {
	port  int
	host  string
	trust trust
}

func (a attempt) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port)) }

// outcome is the result of an attempt.
type outcome struct {
	kind   outcomeKind
	detail string // the client's message, unless verified
}

type outcomeKind int

const (
	broken   outcomeKind = iota // failed for another reason than the certificate
	verified                    // the certificate was accepted, and the answer read
	refused                     // the certificate was rejected
)

// stacks lists all, in the order of the table.
func stacks() []stack {
	return []stack{
		{name: "Go", mldsa: true, connect: each(goClient)},
		{name: "OpenSSL", needs: []string{"openssl"}, version: []string{"openssl", "version"}, openSSL: true, connect: each(opensslClient())},
		{name: "OpenSSL strict", needs: []string{"openssl"}, version: []string{"openssl", "version"}, openSSL: true, connect: each(opensslClient("-x509_strict", "-partial_chain"))},
		{name: "curl", needs: []string{"curl"}, version: []string{"curl", "--version"}, openSSL: curlHasOpenSSL(), connect: each(curlClient)},
		{name: "GnuTLS", needs: []string{"gnutls-cli"}, needsLast: true, unconstrainedURIs: true, version: []string{"gnutls-cli", "--version"}, connect: each(gnutlsClient)},
		{name: "Python", needs: []string{"python3"}, version: []string{"python3", "-c", "import ssl, sys; print('Python', sys.version.split()[0], 'with', ssl.OPENSSL_VERSION)"}, openSSL: true, connect: pythonClient},
		{name: "Java", needs: []string{"java", "keytool"}, unconstrainedRoots: true, version: []string{"java", "--version"}, connect: javaClient},
		{name: "Node", needs: []string{"node"}, version: []string{"node", "-p", "`Node ${process.versions.node} with OpenSSL ${process.versions.openssl}`"}, openSSL: true, connect: nodeClient},
	}
}

// missing returns the commands that the stack needs and that are not installed.
func (s stack) missing() []string {
	var names []string
	for _, name := range s.needs {
		if _, err := exec.LookPath(name); err != nil {
			names = append(names, name)
		}
	}
	return names
}

// readVersion returns the stack's version.
func (s stack) readVersion(ctx context.Context) (string, error) {
	if s.version == nil {
		return runtime.Version(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, clientTime)
	defer cancel()
	out, err := command(ctx, s.version[0], s.version[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(s.version, " "), err)
	}
	return shortVersion(string(out)), nil
}

// shortVersion returns the first line, without libraries that do not verify certificates.
func shortVersion(out string) string {
	line, _, _ := strings.Cut(out, "\n")
	line, _, _ = strings.Cut(line, " zlib/")
	line, _, _ = strings.Cut(line, " (Library:")
	return strings.TrimSpace(line)
}

// command is exec.CommandContext with the C locale.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	return cmd
}

// each runs the attempts sequentially, with a timeout for each.
func each(client func(context.Context, attempt) outcome) func(context.Context, []attempt) ([]outcome, error) {
	return func(ctx context.Context, attempts []attempt) ([]outcome, error) {
		outcomes := make([]outcome, 0, len(attempts))
		for _, a := range attempts {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			one, cancel := context.WithTimeout(ctx, clientTime)
			outcomes = append(outcomes, client(one, a))
			cancel()
		}
		return outcomes, nil
	}
}

func goClient(ctx context.Context, a attempt) outcome {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(a.trust.file)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		return outcome{broken, fmt.Sprintf("no roots in %s: %v", a.trust.file, err)}
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: a.host, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", a.address())
	var refusal *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refusal):
		return outcome{refused, refusal.Error()}
	case err != nil:
		return outcome{broken, err.Error()}
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return outcome{broken, err.Error()}
	}
	if _, err := io.WriteString(conn, request(a.host)); err != nil {
		return outcome{broken, err.Error()}
	}
	said, err := io.ReadAll(conn)
	if err != nil {
		return outcome{broken, err.Error()}
	}
	return read(string(said))
}

// request returns an HTTP request for the answer.
func request(host string) string { return "GET / HTTP/1.0\r\nHost: " + host + "\r\n\r\n" }

// read returns the outcome of a client that reported no error, by its output.
func read(said string) outcome {
	if !strings.HasSuffix(said, answer) {
		return outcome{broken, fmt.Sprintf("connected, and did not read the server's answer: %q", last(said))}
	}
	return outcome{kind: verified}
}

// run runs a client and returns its output and its exit code; -1 if it could not be run or timed out.
func run(ctx context.Context, stdin string, name string, args ...string) (stdout, stderr string, code int) {
	cmd := command(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || ctx.Err() != nil {
			fmt.Fprintf(&errs, "%v %v", err, ctx.Err())
			return out.String(), errs.String(), -1
		}
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// last returns the last line that is not empty.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
