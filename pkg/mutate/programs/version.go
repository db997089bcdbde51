package programs

import (
	"regexp"
	"strconv"
	"strings"
)

// Fit is whether an image has a version of a program that takes its certificate as in the
// program's entry.
type Fit int

// The values of Fit.
const (
	FitYes     Fit = iota // it is new enough, or every version does
	FitUnknown            // its tag does not show the version
	FitNo                 // it is older
)

// Fits reports whether the image has a version of the program that takes its certificate as
// in the entry. The tag of another image with the program's executable does not show the
// version.
func (t Table) Fits(p *Program, image string) Fit {
	if p.Since == "" {
		return FitYes
	}
	if own, _ := t.ByImage(image); own != p {
		return FitUnknown
	}
	return compare(versionOf(tagOf(image)), versionOf(p.Since))
}

// tagOf returns the tag of an image reference, or "".
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	return strings.TrimPrefix(strings.TrimPrefix(image, Untagged(image)), ":")
}

// tagVersion matches a tag that begins with a version: v2.24.0-alpine, 7.2-bookworm, 7.
var tagVersion = regexp.MustCompile(`^[vV]?([0-9]{1,9}(?:\.[0-9]{1,9}){0,3})(?:[-+_.].*)?$`)

// versionOf returns the numbers of the version with which a tag begins, or nil.
func versionOf(tag string) []int {
	m := tagVersion.FindStringSubmatch(tag)
	if m == nil {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(m[1], ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// newest is larger than the first number of every version. A tag with such a number is a date
// or a hash.
const newest = 1000

// compare returns whether a version is at least the other. It returns FitUnknown for a shorter
// one, as 6 is for 6.2: it is the newest of its series, which may be older or not.
func compare(have, least []int) Fit {
	if len(have) == 0 || have[0] >= newest && least[0] < newest {
		return FitUnknown
	}
	for i, n := range least {
		switch {
		case i >= len(have):
			return FitUnknown
		case have[i] < n:
			return FitNo
		case have[i] > n:
			return FitYes
		}
	}
	return FitYes
}
