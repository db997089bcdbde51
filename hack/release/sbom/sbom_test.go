package sbom

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"
)

// document returns a document about an archive with two programs of the same modules.
func document(t *testing.T) (Document, *buildinfo.BuildInfo) {
	t.Helper()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.com/web/cmd/web", Main: debug.Module{Path: "example.com/web"},
		Deps: []*debug.Module{
			{Path: "k8s.io/api", Version: "v0.37.2", Sum: "h1:aaa="},
			{Path: "gopkg.in/inf/v0", Version: "v0.9.1", Sum: "h1:bbb="},
			{Path: "gopkg.in/inf-v0", Version: "v0.9.1", Sum: "h1:ccc="},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
	}
	program := Program{Name: "web", SHA256: strings.Repeat("a", 64), Info: info, Version: "v1.2.3", Location: "git+https://example.com/web@abc"}
	other := program
	other.Name, other.SHA256 = "other", strings.Repeat("b", 64)
	return Document{
		Name: "web.tar.gz", Namespace: "https://example.com/web", Created: time.Unix(1700000000, 0),
		Subject: Subject{
			Name: "web.tar.gz", Version: "v1.2.3", File: "web.tar.gz", Purpose: "ARCHIVE", SHA256: strings.Repeat("c", 64),
			Location: "https://example.com/web.tar.gz", PURL: "pkg:generic/web@v1.2.3",
		},
		Programs: []Program{program, other},
	}, info
}

func written(t *testing.T, d Document) ([]byte, *spdx.Document) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, d.Write(&text))
	read, err := spdxjson.Read(bytes.NewReader(text.Bytes()))
	require.NoError(t, err)
	require.NoError(t, spdxlib.ValidateDocument(read))
	return text.Bytes(), read
}

// SPDX's own library reads a document, which contains everything that was linked.
func TestDocument(t *testing.T) {
	d, info := document(t)
	text, read := written(t, d)
	require.Equal(t, "SPDX-2.3", read.SPDXVersion)
	require.Equal(t, "CC0-1.0", read.DataLicense)
	require.Equal(t, "2023-11-14T22:13:20Z", read.CreationInfo.Created)
	require.Equal(t, "https://example.com/web", read.DocumentNamespace)

	described, err := spdxlib.GetDescribedPackageIDs(read)
	require.NoError(t, err)
	require.Len(t, described, 1)
	packages := map[string]*spdx.Package{}
	identifiers := map[string]bool{}
	for _, p := range read.Packages {
		packages[p.PackageName] = p
		id := string(p.PackageSPDXIdentifier)
		require.Regexp(t, `^[A-Za-z0-9.-]+$`, id)
		require.False(t, identifiers[id], "%s is a duplicate", id)
		identifiers[id] = true
		require.NotEmpty(t, p.PackageDownloadLocation, p.PackageName)
		require.False(t, p.FilesAnalyzed, p.PackageName)
	}
	require.Len(t, packages, 1+2+1+len(info.Deps), "subject, programs, standard library, modules")
	require.Equal(t, described[0], packages["web.tar.gz"].PackageSPDXIdentifier)
	require.Equal(t, strings.Repeat("c", 64), packages["web.tar.gz"].PackageChecksums[0].Value)
	require.Equal(t, "built from commit abc for linux/arm64 by go1.26.8", packages["web"].PackageSourceInfo)
	require.Equal(t, strings.TrimPrefix(info.GoVersion, "go"), packages["stdlib"].PackageVersion)
	for _, module := range info.Deps {
		p := packages[module.Path]
		require.NotNil(t, p, module.Path)
		require.Equal(t, module.Version, p.PackageVersion)
		require.Equal(t, "go.sum: "+module.Sum, p.PackageSourceInfo)
		require.Equal(t, "pkg:golang/"+module.Path+"@"+module.Version, p.PackageExternalReferences[0].Locator)
	}
	relations := map[string]int{}
	for _, r := range read.Relationships {
		relations[r.Relationship]++
	}
	require.Equal(t, map[string]int{"DESCRIBES": 1, "CONTAINS": 2, "DEPENDS_ON": 2 * (1 + len(info.Deps))}, relations)

	again, _ := written(t, d)
	require.Equal(t, text, again)
}

// TestJSONFields checks what SPDX requires of the JSON form, and the library does not check.
func TestJSONFields(t *testing.T) {
	d, _ := document(t)
	text, _ := written(t, d)
	var fields struct {
		SPDXID       string
		CreationInfo struct{ Creators []string }
		Packages     []map[string]any
	}
	require.NoError(t, json.Unmarshal(text, &fields))
	require.Equal(t, "SPDXRef-DOCUMENT", fields.SPDXID)
	require.Equal(t, []string{"Tool: servingcert-release"}, fields.CreationInfo.Creators)
	for _, p := range fields.Packages {
		require.Equal(t, false, p["filesAnalyzed"], "true is the default: %v", p["name"])
		require.Regexp(t, `^SPDXRef-`, p["SPDXID"])
	}
}

// The document contains the replacement of a replaced module.
func TestReplaced(t *testing.T) {
	d, _ := document(t)
	d.Programs = d.Programs[:1]
	d.Programs[0].Info = &debug.BuildInfo{
		GoVersion: "go1.26.8 X:none", Path: "example.com/web/cmd/web", Main: debug.Module{Path: "example.com/web"},
		Deps: []*debug.Module{{Path: "old", Version: "v1", Replace: &debug.Module{Path: "new", Version: "v2", Sum: "h1:x"}}},
	}
	_, read := written(t, d)
	var names []string
	for _, p := range read.Packages {
		names = append(names, p.PackageName+" "+p.PackageVersion)
	}
	require.Equal(t, []string{"web.tar.gz v1.2.3", "web v1.2.3", "stdlib 1.26.8", "new v2"}, names)
	require.Equal(t, "pkg:golang/example.com/web@v1.2.3#cmd/web", read.Packages[1].PackageExternalReferences[0].Locator)
}
