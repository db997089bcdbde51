package commandline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// A command line is written as COMMAND | ARGS, and where the flags go as ^.
func parseLine(s string) Line {
	command, args, _ := strings.Cut(s, "|")
	split := func(s string) []string {
		var out []string
		for _, f := range strings.Fields(s) {
			out = append(out, strings.ReplaceAll(f, "_", " "))
		}
		return out
	}
	c := split(command)
	return Line{append(c, split(args)...), len(c)}
}

func TestShells(t *testing.T) {
	for line, want := range map[string]bool{
		"sh -c exec_web":                       true,
		"/bin/sh -ec exec_web":                 true,
		"bash | -c exec_web":                   true,
		"| sh -c exec_web":                     true,
		"bash -euo pipefail -c exec_web":       true,
		"bash -o pipefail -c exec_web":         true,
		"bash --login -c exec_web":             true,
		"/bin/busybox sh -c exec_web":          true,
		"tini -- sh -c exec_web":               true,
		"/sbin/tini -g -p SIGTERM -- ash -c x": true,
		"dumb-init sh -c exec_web":             true,
		"/usr/bin/env A=b bash -c exec_web":    true,
		"nice -n 10 sh -c exec_web":            true,
		"timeout 10 sh -c exec_web":            true,
		"sh":                                   true, // reads a script from its input, and dies of a flag
		"sh -e":                                true,
		"| -c exec_/web_--port_1":              true, // to an ENTRYPOINT that is a shell
		"sh /start.sh":                         false,
		"bash -e /start.sh":                    false,
		"bash -- /start.sh":                    false,
		"busybox httpd -f":                     false,
		"/web -c /etc/config":                  false,
		"| -c /etc/envoy.yaml":                 false,
		"| serve":                              false,
		"tini -- /web -c x":                    false,
		"/usr/local/bin/shell-server -c x":     false,
		"":                                     false,
	} {
		assert.Equal(t, want, parseLine(line).IgnoresArguments(), "%s", line)
	}
}

func TestWhereFlagsGo(t *testing.T) {
	for line, before := range map[string]string{
		"| serve":                          "",
		"| serve --":                       "--",
		"| serve -- one -- two":            "-- one -- two",
		"/web | --port 1":                  "",
		"tini -- /web":                     "",
		"tini -- /web -- x":                "-- x",
		"tini /web -- x":                   "-- x",
		"dumb-init --rewrite 15:3 -- /web": "",
		"dlv exec /web -- --port=1":        "",
		"npm start":                        "",
		"npm start -- --port 1":            "",
		"nice -n 10 /web -- x":             "-- x",
		"gosu web /web -- x":               "-- x",
		"tini -- env A=b /web -- x":        "-- x",
		"tini":                             "",
		"tini --":                          "",
	} {
		l := parseLine(line)
		assert.Equal(t, before, strings.Join(l.Tokens[l.End():], " "), "%s", line)
	}
}

// TestIsShellOption: what is looked at first leaves out none.
func TestIsShellOption(t *testing.T) {
	for arg, want := range map[string]bool{"-c": true, "-ec": true, "-aefhicklmnu": true, "-aefhickaefhi": false, "c": false, "--c": false, "": false} {
		assert.Equal(t, want, isShellOption(arg), arg)
	}
	rapid.Check(t, func(t *rapid.T) {
		arg := rapid.StringMatching(`-?[aefc-]{0,14}`).Draw(t, "argument")
		if got, want := isShellOption(arg), shellOption.MatchString(arg); got != want {
			t.Fatalf("%q: %v, want %v", arg, got, want)
		}
	})
}

// TestWhatRuns: what says which flags are known, and no other argument.
func TestWhatRuns(t *testing.T) {
	for _, tt := range []struct {
		command, args []string
		executable    string
		words         []string
	}{
		{nil, nil, "", nil},
		{nil, []string{"--port=80", "serve"}, "", nil},
		{nil, []string{"serve", "--port=80"}, "", []string{"serve"}},
		{nil, []string{"/data", "serve"}, "", nil},
		{nil, []string{"TCP-LISTEN:80", "TCP:db:80"}, "", nil},
		{[]string{"/bin/app"}, nil, "app", nil},
		{[]string{"/bin/app", "query"}, []string{"--port=80"}, "app", []string{"query"}},
		{[]string{"app"}, []string{"10.0.0.1"}, "app", nil},
		{[]string{"tini", "--", "app", "serve"}, nil, "app", []string{"serve"}},
		{[]string{"nice", "-n", "10", "/bin/app", "serve"}, nil, "app", []string{"serve"}},
		{[]string{"python3", "-m"}, nil, "python3", nil},
		{[]string{"docker-entrypoint.sh", "mysqld"}, nil, "mysqld", nil},
		{[]string{"docker-entrypoint.sh", "--port=1"}, nil, "docker-entrypoint.sh", nil},
		{[]string{"node", "--enable-source-maps", "dist/server.js"}, []string{"8080"}, "node", []string{"dist/server.js"}},
		{[]string{"java", "-Xmx1g", "-jar", "/app.jar"}, nil, "java", []string{"/app.jar"}},
		{[]string{"app", strings.Repeat("a", 32)}, nil, "app", nil},
	} {
		executable, words := Of(&corev1.Container{Command: tt.command, Args: tt.args}).Runs()
		assert.Equal(t, tt.executable, executable, "%q %q", tt.command, tt.args)
		assert.Equal(t, tt.words, words, "%q %q", tt.command, tt.args)
	}
	line := Of(&corev1.Container{Command: []string{"app", "--cert=/c", "serve"}, Args: []string{"--key=/k", "x"}})
	assert.Equal(t, Line{[]string{"app", "serve", "x"}, 2}, line.Without([]string{"--cert=/c", "--key=/k"}))
}
