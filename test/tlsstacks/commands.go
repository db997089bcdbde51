package main

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// Clients that run a command for each connection. Each distinguishes a rejected certificate from
// other failures.

// opensslClient is openssl s_client with more options.
func opensslClient(more ...string) func(context.Context, attempt) outcome {
	return func(ctx context.Context, a attempt) outcome {
		args := append([]string{
			"s_client", "-connect", a.address(), "-servername", a.host, "-verify_hostname", a.host, "-verify_return_error",
			"-CAfile", a.trust.file, "-no-CApath", "-no-CAstore", "-quiet",
		}, more...)
		stdout, stderr, code := run(ctx, request(a.host), "openssl", args...)
		switch {
		case code == 0:
			return read(stdout)
		case strings.Contains(stderr, "verify error:num="):
			return outcome{refused, lineWith(stderr, "verify error:num=")}
		}
		return outcome{broken, last(stderr)}
	}
}

// curlFailedVerification is CURLE_PEER_FAILED_VERIFICATION.
const curlFailedVerification = 60

func curlClient(ctx context.Context, a attempt) outcome {
	port := strconv.Itoa(a.port)
	stdout, stderr, code := run(ctx, "", "curl", "--disable", "--silent", "--show-error", "--noproxy", "*",
		"--cacert", a.trust.file, "--resolve", a.host+":"+port+":127.0.0.1", "https://"+a.host+":"+port+"/")
	switch code {
	case 0:
		return read(stdout)
	case curlFailedVerification:
		return outcome{refused, lineWith(stderr, "curl: (60)")}
	}
	return outcome{broken, last(stderr)}
}

// curlHasOpenSSL reports whether the installed curl uses OpenSSL.
func curlHasOpenSSL() bool {
	out, err := exec.Command("curl", "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return err == nil && strings.Contains(line, " OpenSSL/")
}

func gnutlsClient(ctx context.Context, a attempt) outcome {
	stdout, stderr, code := run(ctx, request(a.host), "gnutls-cli", "--x509cafile", a.trust.file,
		"--sni-hostname", a.host, "--verify-hostname", a.host, "--port", strconv.Itoa(a.port), "127.0.0.1")
	switch {
	case code == 0:
		said, _, _ := strings.Cut(stdout, "- Peer has closed the GnuTLS connection")
		return read(said)
	case strings.Contains(stdout, "*** PKI verification of server certificate failed"):
		return outcome{refused, lineWith(stdout, "- Status:")}
	}
	return outcome{broken, last(stdout + stderr)}
}

// lineWith returns the first line that contains the text.
func lineWith(text, words string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, words) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
