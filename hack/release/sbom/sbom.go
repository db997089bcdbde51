// Package sbom writes SPDX 2.3 documents about archives and images of Go programs: the programs, and
// their modules as recorded by the linker.
package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Document is one SPDX document.
type Document struct {
	Name      string // for users
	Namespace string // a unique URI
	Created   time.Time
	Subject   Subject
	Programs  []Program
}

// Subject is the subject of the document.
type Subject struct {
	Name     string
	Version  string
	File     string // its file in the release
	Purpose  string // ARCHIVE or CONTAINER
	SHA256   string // of the archive, or of the image's index
	Location string // URL for downloads
	PURL     string // package URL; "" if there is none
}

// Program is a Go program in the subject.
type Program struct {
	Name   string // the file in the subject
	SHA256 string
	Info   *buildinfo.BuildInfo

	Version  string // of the release
	Location string // of its source
}

// Write writes the document as JSON.
func (d Document) Write(w io.Writer) error {
	return spdxjson.Write(d.spdx(), w, spdxjson.Indent(" "), spdxjson.EscapeHTML(false))
}

const (
	noAssertion = "NOASSERTION"
	license     = "Apache-2.0"
	self        = common.ElementID("DOCUMENT")
)

func (d Document) spdx() *spdx.Document {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: self,
		DocumentName: d.Name, DocumentNamespace: d.Namespace,
		CreationInfo: &spdx.CreationInfo{
			Created:  d.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "servingcert-release"}},
		},
	}
	b := builder{doc: doc, known: map[common.ElementID]bool{}}
	subject := b.add(self, common.TypeRelationshipDescribe, d.Subject.element())
	for _, program := range d.Programs {
		id := b.add(subject, common.TypeRelationshipContains, program.element())
		b.add(id, common.TypeRelationshipDependsOn, standardLibrary(program.Info))
		for _, module := range program.Info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			b.add(id, common.TypeRelationshipDependsOn, moduleElement(module.Path, module.Version, module.Sum))
		}
	}
	return doc
}

// builder adds each package once, independent of the number of its dependents.
type builder struct {
	doc   *spdx.Document
	known map[common.ElementID]bool
}

func (b *builder) add(from common.ElementID, relation string, p *spdx.Package) common.ElementID {
	if !b.known[p.PackageSPDXIdentifier] {
		b.known[p.PackageSPDXIdentifier] = true
		b.doc.Packages = append(b.doc.Packages, p)
	}
	b.doc.Relationships = append(b.doc.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: p.PackageSPDXIdentifier},
		Relationship: relation,
	})
	return p.PackageSPDXIdentifier
}

func (s Subject) element() *spdx.Package {
	p := element("subject", s.Name, s.Version, s.SHA256, s.PURL)
	p.PackageFileName, p.PrimaryPackagePurpose, p.PackageDownloadLocation = s.File, s.Purpose, s.Location
	p.PackageLicenseDeclared = license
	p.PackageChecksums = sha256Checksum(s.SHA256)
	return p
}

func (p Program) element() *spdx.Package {
	settings := map[string]string{}
	for _, s := range p.Info.Settings {
		settings[s.Key] = s.Value
	}
	folder := strings.TrimPrefix(p.Info.Path, p.Info.Main.Path+"/")
	e := element("program", p.Name, p.Version, p.SHA256, purl(p.Info.Main.Path, p.Version)+"#"+folder)
	e.PackageFileName, e.PrimaryPackagePurpose, e.PackageDownloadLocation = p.Name, "APPLICATION", p.Location
	e.PackageLicenseDeclared = license
	e.PackageChecksums = sha256Checksum(p.SHA256)
	e.PackageSourceInfo = fmt.Sprintf("built from commit %s for %s/%s by %s", settings["vcs.revision"], settings["GOOS"], settings["GOARCH"], p.Info.GoVersion)
	return e
}

func sha256Checksum(hex string) []common.Checksum {
	return []common.Checksum{{Algorithm: common.SHA256, Value: hex}}
}

// standardLibrary returns Go's standard library, under its name in databases of vulnerabilities.
func standardLibrary(info *buildinfo.BuildInfo) *spdx.Package {
	version := strings.TrimPrefix(strings.Fields(info.GoVersion + " ")[0], "go")
	p := moduleElement("stdlib", version, "")
	p.PackageLicenseDeclared = "BSD-3-Clause"
	return p
}

// moduleElement returns a module. The hash in go.sum is not of an algorithm that SPDX supports, so it is
// a comment.
func moduleElement(path, version, sum string) *spdx.Package {
	p := element("module", path, version, sum, purl(path, version))
	p.PrimaryPackagePurpose = "LIBRARY"
	if sum != "" {
		p.PackageSourceInfo = "go.sum: " + sum
	}
	return p
}

// element returns a package with nothing but a name. The last two arguments distinguish it from
// others with this name.
func element(kind, name, version, hash, purl string) *spdx.Package {
	p := &spdx.Package{
		PackageName: name, PackageVersion: version, PackageSPDXIdentifier: identifier(kind, name, version, hash, purl),
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		IsFilesAnalyzedTagPresent: true,
	}
	if purl != "" {
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
		}}
	}
	return p
}

var unidentifiable = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// identifier returns a readable and unique identifier that SPDX allows.
func identifier(kind, name string, rest ...string) common.ElementID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", kind, name, rest))
	return common.ElementID(fmt.Sprintf("%s-%s-%x", kind, unidentifiable.ReplaceAllString(name, "-"), sum[:6]))
}

// purl returns the package URL of a Go module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }
