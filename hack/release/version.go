package main

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

var bareCommit = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// versionOf returns the version of a release: the requested one, or the output of git describe --tags
// --always --dirty, which is the commit's hash if there is no tag. "-dirty" is removed, as only commits
// are built.
func versionOf(asked string) (string, error) {
	version := strings.TrimSuffix(asked, "-dirty")
	if bareCommit.MatchString(version) {
		version = "v0.0.0-g" + version
	}
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return "", fmt.Errorf("VERSION: %q: must be a semantic version such as v1.2.3 or v1.2.3-rc.1, without build metadata", asked)
	}
	return version, nil
}
