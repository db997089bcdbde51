package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
	"text/template"
	"time"

	"github.com/servingcert/servingcert/hack/node/images"
	"github.com/servingcert/servingcert/hack/release/sbom"
)

// programs builds each program for its platforms.
func (r *release) programs(ctx context.Context) error {
	for _, p := range pluginPlatforms {
		packages := []string{"./cmd/" + plugin}
		if slices.Contains(serverPlatforms, p) {
			for _, process := range images.Processes() {
				packages = append(packages, "./cmd/"+process)
			}
		}
		target := images.Platform{OS: p.OS, Arch: p.Arch, Version: r.version}
		built, err := target.Build(ctx, r.source, filepath.Join(r.bin, p.String()), packages...)
		if err != nil {
			return err
		}
		for _, path := range built {
			if err := r.checkBuild(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBuild returns an error unless a program was built from the unmodified commit of the release.
func (r *release) checkBuild(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] != r.commit || settings["vcs.modified"] != "false" {
		return fmt.Errorf("%s: was built from commit %q (modified: %q) instead of %s",
			path, settings["vcs.revision"], settings["vcs.modified"], r.commit)
	}
	return nil
}

// layouts builds the images.
func (r *release) layouts(context.Context) error {
	for _, process := range images.Processes() {
		binaries := map[string]string{}
		var programs []sbom.Program
		for _, p := range serverPlatforms {
			binaries[p.Arch] = filepath.Join(r.bin, p.String(), process)
			program, err := r.program(binaries[p.Arch])
			if err != nil {
				return err
			}
			programs = append(programs, program)
		}
		i := image{process: process, ref: r.registry + "/servingcert/" + process + ":" + r.version}
		labels := images.Labels(process)
		labels["org.opencontainers.image.version"] = r.version
		labels["org.opencontainers.image.revision"] = r.commit
		labels["org.opencontainers.image.created"] = r.time.Format(time.RFC3339)
		r.goVersion = programs[0].Info.GoVersion
		index, err := images.OfBinaries(i.ref, binaries, images.Config{Labels: labels, Created: r.time, Files: images.Files(process)})
		if err != nil {
			return err
		}
		if i.digest, err = index.Digest(); err != nil {
			return err
		}
		if err := index.WriteLayout(filepath.Join(r.out, i.layout())); err != nil {
			return err
		}
		subject := sbom.Subject{
			Name: i.repository(), File: i.layout(), Purpose: "CONTAINER", SHA256: strings.TrimPrefix(i.digest, "sha256:"),
			PURL: "pkg:oci/" + process + "@" + strings.ReplaceAll(i.digest, ":", "%3A") + "?repository_url=" + i.repository() + "&tag=" + r.version,
		}
		if err := r.bill(process+".oci", subject, programs); err != nil {
			return err
		}
		r.images = append(r.images, i)
	}
	var list strings.Builder
	for _, i := range r.images {
		fmt.Fprintln(&list, i.listed())
	}
	return r.write(imageList, []byte(list.String()))
}

// imageList is the file with the digests of the images, in the format of sha256sum.
const imageList = "images.sha256"

// pluginArchive describes an archive in the plugin's manifest.
type pluginArchive struct {
	platform
	File, Program, SHA256 string
}

// archives writes the archives of the plugin, which Krew installs, and of the servers.
func (r *release) archives(context.Context) error {
	var archives []pluginArchive
	for _, p := range pluginPlatforms {
		sum, err := r.archive(p, plugin, plugin)
		if err != nil {
			return err
		}
		archives = append(archives, pluginArchive{p, p.archive(plugin), p.program(plugin), sum})
	}
	for _, p := range serverPlatforms {
		if _, err := r.archive(p, "servingcert", images.Processes()...); err != nil {
			return err
		}
	}
	return r.krew(archives)
}

// krew writes the plugin's manifest.
func (r *release) krew(archives []pluginArchive) error {
	manifest, err := template.ParseFiles(filepath.Join(r.source, krewTemplate))
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := manifest.Execute(&text, map[string]any{
		"Version": r.version, "Downloads": downloads(r.version), "Archives": archives,
	}); err != nil {
		return err
	}
	return r.write("krew.yaml", text.Bytes())
}

// archive writes an archive for a platform and its bill of materials, and returns its SHA-256.
func (r *release) archive(p platform, name string, names ...string) (string, error) {
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return "", err
	}
	files := fstest.MapFS{"LICENSE": {Data: license, Mode: 0o644, ModTime: r.time}}
	var programs []sbom.Program
	for _, program := range names {
		path := filepath.Join(r.bin, p.String(), p.program(program))
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		files[filepath.Base(path)] = &fstest.MapFile{Data: content, Mode: 0o755, ModTime: r.time}
		billed, err := r.program(path)
		if err != nil {
			return "", err
		}
		programs = append(programs, billed)
	}
	file := p.archive(name)
	content, err := pack(file, files)
	if err != nil {
		return "", err
	}
	if err := r.write(file, content); err != nil {
		return "", err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	return sum, r.bill(name+"_"+p.String(), sbom.Subject{Name: file, File: file, Purpose: "ARCHIVE", SHA256: sum}, programs)
}

// pack returns an archive of the files, owned by root: .zip or .tar.gz, according to name.
func pack(name string, files fs.FS) ([]byte, error) {
	var out bytes.Buffer
	if strings.HasSuffix(name, ".zip") {
		archive := zip.NewWriter(&out)
		err := errors.Join(archive.AddFS(files), archive.Close())
		return out.Bytes(), err
	}
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	err := errors.Join(archive.AddFS(files), archive.Close(), zipped.Close())
	return out.Bytes(), err
}

// program returns the description of a binary in a bill of materials.
func (r *release) program(path string) (sbom.Program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return sbom.Program{}, err
	}
	sum, err := sumOf(path)
	return sbom.Program{
		Name: filepath.Base(path), SHA256: sum, Info: info, Version: r.version,
		Location: "git+" + repositoryURL + "@" + r.commit,
	}, err
}

// bill writes NAME.spdx.json.
func (r *release) bill(name string, subject sbom.Subject, programs []sbom.Program) error {
	subject.Version, subject.Location = r.version, downloads(r.version)+"/"+subject.File
	var text bytes.Buffer
	err := sbom.Document{
		Name: subject.File, Namespace: fmt.Sprintf("%s/%s.spdx.json#%s", downloads(r.version), name, subject.SHA256),
		Created: r.time, Subject: subject, Programs: programs,
	}.Write(&text)
	if err != nil {
		return err
	}
	return r.write(name+".spdx.json", text.Bytes())
}

// chart packages the chart and renders install.yaml, both with images by digest, in the module that
// requires Helm.
func (r *release) chart(ctx context.Context) error {
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	args := []string{
		"run", "-C", filepath.Join(r.source, "hack", "chart"), ".", "package", "-dir", out,
		"-version", r.version, "-registry", r.registry, "-epoch", strconv.FormatInt(r.time.Unix(), 10),
	}
	for _, i := range r.images {
		if i.process != images.Hostsync {
			args = append(args, "-digest", i.process+"="+i.digest)
		}
	}
	_, err = output(ctx, ".", []string{"GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off"}, "go", args...)
	return err
}

// releaseNotes writes the release notes.
func (r *release) releaseNotes(context.Context) error {
	changelog, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	changes, err := section(string(changelog), r.version, r.tagged)
	if err != nil {
		return err
	}
	return r.write("release-notes.md", []byte(r.notes(changes)))
}

// checksums writes checksums.txt, for sha256sum -c, with all other files.
func (r *release) checksums(context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, entry.Name())
	}
	return r.write("checksums.txt", []byte(text.String()))
}

func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	return fmt.Sprintf("%x", sha256.Sum256(content)), err
}
