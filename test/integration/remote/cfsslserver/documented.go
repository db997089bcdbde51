package cfsslserver

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// What docs/remote-ca.md calls the places that differ in a test.
const (
	documentedDir     = "/etc/cfssl"
	documentedAddress = "0.0.0.0"
	documentedPort    = "8888"
)

// documented is what docs/remote-ca.md tells an operator to use.
type documented struct {
	profiles string // serving.json
	roots    string // roots.conf
	commands map[Kind][]string
}

// readDocumented reads the page from the directory of a package in test/integration.
func readDocumented() (documented, error) {
	page, err := os.ReadFile("../../../docs/remote-ca.md")
	if err != nil {
		return documented{}, err
	}
	d := documented{commands: map[Kind][]string{}}
	for _, fence := range regexp.MustCompile("(?s)\n```(\\w+)\n(.*?)\n```").FindAllStringSubmatch(string(page), -1) {
		switch fence[1] {
		case "json":
			d.profiles = fence[2]
		case "ini":
			d.roots = fence[2]
		case "console":
			for _, kind := range []Kind{Serve, Multirootca} {
				if rest, ok := strings.CutPrefix(fence[2], "$ "+string(kind)+" "); ok {
					d.commands[kind] = strings.Fields(strings.ReplaceAll(rest, "\\\n", " "))
				}
			}
		}
	}
	if d.profiles == "" || d.roots == "" || len(d.commands) != 2 {
		return documented{}, fmt.Errorf("docs/remote-ca.md: must have serving.json in a json block, roots.conf in an ini block, and a console block for each of %q and %q", Serve, Multirootca)
	}
	return d, nil
}

// inDir returns text with a test's directory.
func inDir(text, dir string) string { return strings.ReplaceAll(text, documentedDir, dir) }

// commandLine returns the arguments of a kind's command with a test's directory
// and address.
func (d documented) commandLine(kind Kind, dir, port string) []string {
	places := strings.NewReplacer(documentedDir, dir, documentedAddress, "127.0.0.1", documentedPort, port)
	_, first, _ := strings.Cut(string(kind), " ")
	args := strings.Fields(first)
	for _, arg := range d.commands[kind] {
		args = append(args, places.Replace(arg))
	}
	return args
}
