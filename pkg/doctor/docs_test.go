package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// groups are all groups, in the order of the documentation.
var groups = []Group{Doctor, Before, System, Authority, Services, Workloads}

const docs = "../../docs"

// page returns docs/checks.md, generated from the list of checks.
func page() string {
	var b strings.Builder
	b.WriteString(`# Checks

<!-- Written by go test ./pkg/doctor -update from pkg/doctor/catalogue.go. -->

**What does a finding of ` + "`kubectl servingcert doctor` or `analyze`" + ` mean, and how do I fix it?** Each check has
an id that never changes. [How to run them](doctor.md).

The level is the default level of the check's findings. With an error, the exit code is 1; with a warning, only
if ` + "`--strict`" + ` is set. ` + "`doctor`" + ` checks a cluster, ` + "`analyze`" + ` checks manifests.
`)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n", g)
		for _, c := range checks {
			if c.Group == g {
				b.WriteString(c.markdown())
			}
		}
	}
	return b.String()
}

func (c Check) markdown() string {
	by := "`doctor`"
	switch {
	case slices.Contains([]ID{Unreadable, InjectedPart}, c.ID):
		by = "`analyze`"
	case c.Offline:
		by = "`doctor` and `analyze`"
	}
	return fmt.Sprintf("\n### %s\n\n%s\n\n%s\n\n%s\n", c.ID,
		wrapped(fmt.Sprintf("**%s**, %s, by %s. Passes when %s.", c.Name, c.Level, by, c.Looks)),
		wrapped(c.Why), wrapped(fmt.Sprintf("%s [More](%s).", c.Fix, c.See)))
}

// wrapped breaks a paragraph into lines of at most 100 characters.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		if column > 0 && column+1+len(word) > 100 {
			b.WriteByte('\n')
			column = 0
		}
		if column > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func TestThePageOfTheChecks(t *testing.T) {
	file := filepath.Join(docs, "checks.md")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, page(), string(have), "run go test ./pkg/doctor -update")
}

// anchors returns GitHub's anchors of the headings of a page.
func anchors(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(docs, file))
	require.NoError(t, err)
	var out []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(data), -1) {
		out = append(out, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

func TestEveryLinkOfACheckLeadsSomewhere(t *testing.T) {
	own := anchors(t, "checks.md")
	for _, c := range checks {
		_, anchor, _ := strings.Cut(c.ID.Link(), "docs/checks.md#")
		assert.Contains(t, own, anchor, c.ID)
		file, anchor, ok := strings.Cut(c.See, "#")
		if have := anchors(t, file); ok {
			assert.Contains(t, have, anchor, "%s: %s", c.ID, c.See)
		}
	}
}

// TestTheCatalogue: ids are sorted, and names are unique words.
func TestTheCatalogue(t *testing.T) {
	names := map[string]bool{}
	for i, c := range checks {
		assert.Regexp(t, `^SC[0-9]{3}$`, c.ID)
		assert.Regexp(t, `^[A-Z][A-Za-z]+$`, c.Name)
		assert.False(t, names[c.Name], c.Name)
		names[c.Name] = true
		assert.Contains(t, groups, c.Group)
		assert.Contains(t, []Level{Error, Warning, Info}, c.Level, c.ID)
		for _, text := range []string{c.Looks, c.Why, c.Fix, c.See} {
			assert.NotEmpty(t, text, c.ID)
		}
		if i > 0 {
			assert.Less(t, checks[i-1].ID, c.ID)
		}
	}
}

// TestThePageOnVersionsAgrees: doctor and the documentation name the same minimum versions.
func TestThePageOnVersionsAgrees(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(docs, "kubernetes-versions.md"))
	require.NoError(t, err)
	page := string(content)
	assert.Contains(t, page, fmt.Sprintf(" On 1.%d and newer. ", oldestMinor))
	assert.Regexp(t, fmt.Sprintf(`(?m)^\| \[ClusterTrustBundles\][^|]* \| 1\.%d \|`, clusterTrustBundlesMinor), page)
	assert.Regexp(t, fmt.Sprintf(`(?m)^\| \[PodCertificateRequests\][^|]* \| 1\.%d \|`, podCertificatesMinor), page)
	for id, minor := range map[ID]int{ClusterTrustBundles: clusterTrustBundlesMinor, PodCertificates: podCertificatesMinor} {
		for i := range checks {
			if checks[i].ID == id {
				assert.Contains(t, checks[i].Fix, fmt.Sprintf("Kubernetes 1.%d or later", minor))
			}
		}
	}
}
