package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// unreleased is the section of CHANGELOG.md that the next release has.
const unreleased = "Unreleased"

var (
	sectionHead  = regexp.MustCompile(`(?m)^## +\[?([^\]\s]+)\]?.*$`)
	relativeLink = regexp.MustCompile(`\]\(([^)#:][^):]*)\)`)
)

// section returns the section of CHANGELOG.md about a version, without its heading, and
// under which heading it was found. If there is none it is the one of what is not
// released yet, which is an error if the version was tagged.
func section(changelog, version string, tagged bool) (text, heading string, err error) {
	sections := map[string]string{}
	heads := sectionHead.FindAllStringSubmatchIndex(changelog, -1)
	for i, head := range heads {
		end := len(changelog)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		sections[changelog[head[2]:head[3]]] = strings.TrimSpace(changelog[head[1]:end])
	}
	wanted := []string{strings.TrimPrefix(version, "v"), version}
	if !tagged {
		wanted = append(wanted, unreleased)
	}
	for _, heading := range wanted {
		if text := sections[heading]; text != "" {
			return text, heading, nil
		}
	}
	return "", "", fmt.Errorf("CHANGELOG.md has no section %q: found %q", wanted[0], slices.Sorted(maps.Keys(sections)))
}

// notes are the notes of a release: the section of the changelog, with links that can
// be followed from anywhere, and its images.
func (r *release) notes(changes string) string {
	changes = relativeLink.ReplaceAllString(changes, "]("+repositoryURL+"/blob/"+r.version+"/$1)")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n### Images\n\n| process | image, for linux/amd64 and linux/arm64 |\n|---|---|\n", changes)
	for _, image := range r.images {
		fmt.Fprintf(&b, "| %s | `%s@%s` |\n", image.process, image.ref, image.digest)
	}
	fmt.Fprintf(&b, "\nBuilt from commit %s with %s. [How to verify and reproduce it](%s/blob/%s/docs/release.md).\n",
		r.commit, r.goVersion, repositoryURL, r.version)
	return b.String()
}
