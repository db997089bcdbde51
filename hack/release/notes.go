package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// unreleased is the section of CHANGELOG.md for the next release.
const unreleased = "Unreleased"

var relativeLink = regexp.MustCompile(`\]\(([^)#:][^):]*)\)`)

// section returns the section of CHANGELOG.md about a version, without its heading. If there is none,
// it returns section Unreleased, or an error if the version was tagged.
func section(changelog, version string, tagged bool) (string, error) {
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+changelog, "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		name, _, _ := strings.Cut(heading, " ")
		sections[strings.Trim(name, "[]v")] = strings.TrimSpace(text)
	}
	wanted := strings.TrimPrefix(version, "v")
	if text := sections[wanted]; text != "" {
		return text, nil
	}
	if text := sections[unreleased]; text != "" && !tagged {
		return text, nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q: found %q", wanted, slices.Sorted(maps.Keys(sections)))
}

// notes returns the notes of a release: the section of the changelog, with absolute links, and the images.
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
