package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	placeholder = regexp.MustCompile(`\b(VERSION|BASEURL|SHA256_[A-Z0-9]+_[A-Z0-9]+)\b`)
	comments    = regexp.MustCompile(`(?m)^#.*\n`)
)

// krew fills in the template of the plugin's manifest: sums are those of the plugin's
// archives by OS_ARCH. An archive that the template does not name is an error, as is
// one that it names and that there is not.
func krew(template, version string, sums map[string]string) (string, error) {
	values := map[string]string{"VERSION": version, "BASEURL": downloads(version)}
	for platform, sum := range sums {
		values["SHA256_"+strings.ToUpper(platform)] = sum
	}
	used := map[string]bool{}
	var unknown []string
	text := placeholder.ReplaceAllStringFunc(comments.ReplaceAllString(template, ""), func(name string) string {
		used[name] = true
		if values[name] == "" {
			unknown = append(unknown, name)
		}
		return values[name]
	})
	for name := range values {
		if !used[name] {
			return "", fmt.Errorf("%s: %s is not in it", krewTemplate, name)
		}
	}
	if len(unknown) > 0 {
		return "", fmt.Errorf("%s: nothing is known of %s", krewTemplate, strings.Join(unknown, ", "))
	}
	return text, nil
}
