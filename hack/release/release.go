package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	repositoryURL = "https://github.com/servingcert/servingcert"
	krewTemplate  = "deploy/krew/servingcert.yaml.tmpl"
)

// downloads is the URL of a release's files.
func downloads(version string) string { return repositoryURL + "/releases/download/" + version }

// platform is an operating system and an architecture, as Go names them.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "_" + p.Arch }

// program returns the file name of a program on this platform.
func (p platform) program(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

// archive returns the file name of an archive for this platform.
func (p platform) archive(name string) string {
	if p.OS == "windows" {
		return name + "_" + p.String() + ".zip"
	}
	return name + "_" + p.String() + ".tar.gz"
}

// plugin is kubectl's plugin, for users; the other programs run in clusters.
const plugin = "kubectl-servingcert"

var (
	// pluginPlatforms are the platforms of the plugin.
	pluginPlatforms = []platform{
		{"linux", "amd64"}, {"linux", "arm64"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
		{"windows", "amd64"}, {"windows", "arm64"},
	}
	// serverPlatforms are the platforms of the images and their programs.
	serverPlatforms = pluginPlatforms[:2]
)

// image is an image of the release.
type image struct{ process, ref, digest string }

// layout returns the file name of an image in the release.
func (i image) layout() string { return i.process + ".oci.tar" }

// repository returns the image's name without its tag.
func (i image) repository() string { return i.ref[:strings.LastIndex(i.ref, ":")] }

// listed returns the image's line in the list of images, in the format of sha256sum.
func (i image) listed() string {
	return strings.TrimPrefix(i.digest, "sha256:") + "  " + i.repository()
}

// release is a release that is being built.
type release struct {
	version   string
	registry  string
	commit    string
	time      time.Time // of the commit
	tagged    bool      // the version is a tag of the commit
	goVersion string

	work   string // directory of everything, which close removes
	source string // clone of the commit
	bin    string // bin/OS_ARCH/PROGRAM
	out    string // directory of the release

	images []image
}

// newRelease clones the last commit of the repository that contains the working directory. Uncommitted
// changes are not released, and no file contains the clone's path.
func newRelease(ctx context.Context, version, registry string) (*release, error) {
	version, err := versionOf(version)
	if err != nil {
		return nil, err
	}
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	r := &release{version: version, registry: registry, work: work}
	r.source, r.bin, r.out = filepath.Join(work, "source"), filepath.Join(work, "bin"), filepath.Join(work, "out")
	if err := r.clone(ctx, root); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *release) clone(ctx context.Context, root string) error {
	if _, err := output(ctx, ".", nil, "git", "clone", "--quiet", "--shared", root, r.source); err != nil {
		return err
	}
	shown, err := output(ctx, r.source, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(shown, " ")
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("git log: %q: %w", shown, err)
	}
	tags, err := output(ctx, r.source, nil, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	r.commit, r.time, r.tagged = commit, time.Unix(epoch, 0).UTC(), slices.Contains(strings.Fields(tags), r.version)
	return os.MkdirAll(r.out, 0o755)
}

func (r *release) close() error { return os.RemoveAll(r.work) }

// step writes files of the release.
type step struct {
	what string
	do   func(context.Context) error
}

// steps write all files. Later ones contain hashes of earlier ones.
func (r *release) steps() []step {
	return []step{
		{"programs", r.programs},
		{"images", r.layouts},
		{"archives", r.archives},
		{"chart and install.yaml", r.chart},
		{"release notes", r.releaseNotes},
		{"checksums", r.checksums},
	}
}

func (r *release) build(ctx context.Context, log io.Writer, steps []step) error {
	for _, step := range steps {
		started := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(log, "%-22s %4.0f s\n", step.what, time.Since(started).Seconds())
	}
	return nil
}

// publish replaces a directory by that of the release.
func (r *release) publish(dir string) error {
	// First to its parent, as a directory can only be renamed within a file system.
	next := dir + ".next"
	if err := errors.Join(os.RemoveAll(next), os.CopyFS(next, os.DirFS(r.out))); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(next, dir))
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// output runs a command and returns what it printed, trimmed.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
