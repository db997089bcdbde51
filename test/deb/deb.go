// Package deb has files of Debian packages without installing them.
package deb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// Files returns a directory with the files of Debian packages and of all that they
// depend on: no shell is needed to run what is in it, and no script of a package has run.
// It needs apt-get, dpkg-deb and tar, takes the packages from where this machine takes its
// own, and keeps the directory in the cache. Progress goes to log.
func Files(ctx context.Context, log io.Writer, packages ...string) (string, error) {
	cache, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	release, err := os.ReadFile("/etc/debian_version")
	if err != nil {
		return "", fmt.Errorf("packages of Debian can be had on Debian only: %w", err)
	}
	wanted := slices.Sorted(slices.Values(packages))
	sum := sha256.Sum256(fmt.Appendf(nil, "1 %s %q", release, wanted)) // the number is of what is done here
	root := filepath.Join(cache, fmt.Sprintf("debian-%s-%x", wanted[0], sum[:6]))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, ".debian-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	fmt.Fprintf(log, "fetching Debian's %s\n", strings.Join(wanted, ", "))
	archives, err := download(ctx, work, wanted)
	if err != nil {
		return "", err
	}
	made := filepath.Join(work, "root")
	if err := extract(ctx, made, archives); err != nil {
		return "", err
	}
	// Another process may have been quicker.
	if err := os.Rename(made, root); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return root, nil
}

// download fetches the packages and what they depend on, as if nothing were installed.
func download(ctx context.Context, work string, packages []string) ([]string, error) {
	archives := filepath.Join(work, "archives")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return nil, err
	}
	status := filepath.Join(work, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return nil, err
	}
	install := slices.Concat([]string{
		"install", "--yes", "--download-only", "--no-install-recommends", "--quiet",
		"-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache::archives=" + archives,
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
		"-o", "APT::Sandbox::User=root", // the directory is this user's alone
	}, packages)
	if err := run(exec.CommandContext(ctx, "apt-get", install...)); err != nil {
		// What the machine knows of Debian may be old: it names files that are no more.
		if updated := run(exec.CommandContext(ctx, "apt-get", "update", "--quiet")); updated != nil {
			return nil, errors.Join(err, updated)
		}
		if err := run(exec.CommandContext(ctx, "apt-get", install...)); err != nil {
			return nil, err
		}
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
}

// merged are the directories that are links into /usr in a Debian of today, however a
// package spells them.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// useless is what no program reads.
var useless = []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/info"}

// passwd and group are who may own files in the images.
const (
	passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n" +
		"nonroot:x:65532:65532::/tmp:/usr/sbin/nologin\n"
	group = "root:x:0:\nwww-data:x:33:\nnonroot:x:65532:\n"
)

// extract unpacks the archives into a new directory.
func extract(ctx context.Context, root string, archives []string) error {
	for _, dir := range merged {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("usr", dir), filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for _, archive := range archives {
		unpack := exec.CommandContext(ctx, "sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --directory "$2"`,
			"sh", archive, root)
		if err := run(unpack); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
		}
	}
	for _, dir := range useless {
		if err := os.RemoveAll(filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for file, content := range map[string]string{"passwd": passwd, "group": group} {
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, "etc", file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	tmp := filepath.Join(root, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	return os.Chmod(tmp, 0o777|fs.ModeSticky)
}

// run runs a command; its error says what the command complained of.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
