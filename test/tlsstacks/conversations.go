package main

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Clients that use one process for all connections, as it starts slowly. The process reads a line
// for each connection, with PORT, HOST and the file with the roots, separated by tabs, and answers
// with a line: "verified", "refused: WHY" or "broken: WHY".

//go:embed testdata/client.py testdata/Client.java testdata/client.js
var programs embed.FS

// converseTime is the timeout of all connections of a process.
const converseTime = 3 * time.Minute

func pythonClient(ctx context.Context, attempts []attempt) ([]outcome, error) {
	return converse(ctx, attempts, "client.py", bundleFile, "python3")
}

func nodeClient(ctx context.Context, attempts []attempt) ([]outcome, error) {
	return converse(ctx, attempts, "client.js", bundleFile, "node")
}

func bundleFile(t trust) string { return t.file }

// javaClient writes a truststore for each root with keytool, which starts a JVM for each imported
// certificate, and runs Java.
func javaClient(ctx context.Context, attempts []attempt) ([]outcome, error) {
	stores := map[string]string{}
	for _, a := range attempts {
		for _, root := range a.trust.roots {
			if stores[root] != "" {
				continue
			}
			store := strings.TrimSuffix(root, ".pem") + ".p12"
			if _, stderr, code := run(ctx, "", "keytool", "-J-XX:TieredStopAtLevel=1", "-importcert", "-noprompt", "-trustcacerts",
				"-alias", "root", "-file", root, "-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit"); code != 0 {
				return nil, fmt.Errorf("keytool: %s", last(stderr))
			}
			stores[root] = store
		}
	}
	truststores := func(t trust) string {
		files := make([]string, 0, len(t.roots))
		for _, root := range t.roots {
			files = append(files, stores[root])
		}
		return strings.Join(files, ",")
	}
	return converse(ctx, attempts, "Client.java", truststores, "java", "-XX:TieredStopAtLevel=1")
}

// converse runs a program of testdata with the given command, and makes it run all attempts.
func converse(ctx context.Context, attempts []attempt, program string, roots func(trust) string, name string, args ...string) ([]outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, converseTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "tlsstacks-client-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, err := programs.ReadFile("testdata/" + program)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, program)
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return nil, err
	}
	var lines strings.Builder
	for _, a := range attempts {
		fmt.Fprintf(&lines, "%d\t%s\t%s\n", a.port, a.host, roots(a.trust))
	}
	stdout, stderr, code := run(ctx, lines.String(), name, append(args, file)...)
	if code != 0 {
		return nil, fmt.Errorf("%s %s: exit code %d: %s", name, program, code, last(stderr))
	}
	outcomes, err := parseOutcomes(strings.NewReader(stdout))
	if err == nil && len(outcomes) != len(attempts) {
		err = fmt.Errorf("%d answers to %d attempts", len(outcomes), len(attempts))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, program, err)
	}
	return outcomes, nil
}

func parseOutcomes(r io.Reader) ([]outcome, error) {
	var outcomes []outcome
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		word, detail, _ := strings.Cut(lines.Text(), ": ")
		kind, ok := map[string]outcomeKind{"verified": verified, "refused": refused, "broken": broken}[word]
		if !ok {
			return nil, errors.New("answered " + lines.Text())
		}
		outcomes = append(outcomes, outcome{kind, detail})
	}
	return outcomes, lines.Err()
}
