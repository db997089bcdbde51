package programs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestFits(t *testing.T) {
	table := parsed(t, "- {program: web, images: [web], executables: [webd], flags: [\"--c={cert}\"], since: \"2.24\", reload: itself}\n- {program: any, images: [any], flags: [\"--c={cert}\"], reload: itself}\n")
	web, _ := table.ByImage("web")
	all, _ := table.ByImage("any")
	for image, want := range map[string]Fit{
		"web:v2.24.0": FitYes, "web:2.24": FitYes, "web:2.24.0-alpine": FitYes, "web:v3": FitYes, "web:10.0": FitYes, "web:2.100.1_x": FitYes,
		"web:v2.24.0@sha256:0a": FitYes, "registry:5000/web:2.25": FitYes, "web:2.24.0-rc.1": FitYes, "web:2.24.0+build.7": FitYes, "web:2.24.0.1.5": FitYes,
		"web:v2.23.9": FitNo, "web:1": FitNo, "web:2.4": FitNo, "web:2.3-bookworm": FitNo, "web:0.9.0-debian-12-r3": FitNo, "registry:5000/web:1.0@sha256:0a": FitNo,
		"web": FitUnknown, "web:latest": FitUnknown, "web@sha256:0a": FitUnknown, "web:2": FitUnknown, "web:2-alpine": FitUnknown, "web:main": FitUnknown,
		"web:20240501": FitUnknown, "web:2024-05-01": FitUnknown, "web:3f2a1b7": FitUnknown, "web:alpine3.19": FitUnknown, "web:RELEASE.2024-01-01T00-00-00Z": FitUnknown,
		"web:v": FitUnknown, "web:": FitUnknown, "web:99999999999999999999": FitUnknown, "registry:5000/web": FitUnknown,
		"another:1.0": FitUnknown, "": FitUnknown,
	} {
		assert.Equal(t, want, table.Fits(web, image), image)
		assert.Equal(t, FitYes, table.Fits(all, image), "%s: every version does", image)
	}
}

// TestCompareIsAnOrder: what is newer than a version that fits, fits too.
func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 4)
		least, have := version.Draw(t, "least"), version.Draw(t, "have")
		if compare(have, least) != FitYes {
			return
		}
		newer := append([]int{}, have...)
		newer[rapid.IntRange(0, len(newer)-1).Draw(t, "part")]++
		if compare(newer, least) != FitYes {
			t.Fatalf("%v fits %v, and %v does not", have, least, newer)
		}
		if len(least) <= len(have) && compare(least, have) == FitYes && len(least) == len(have) && !assert.ObjectsAreEqual(least, have) {
			t.Fatalf("%v and %v are both newer", least, have)
		}
	})
}
