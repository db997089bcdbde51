package commandline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
