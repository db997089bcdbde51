// Command images builds the images of the end-to-end scenes' workloads, as files for ctr images
// import and kind load image-archive.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path"
	"path/filepath"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/node/images"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/test/deb"
	"github.com/servingcert/servingcert/test/e2e/pick"
)

// ref returns the name of an image in the scenes' manifests.
func ref(name string) string { return "ghcr.io/servingcert/e2e-" + name + ":e2e" }

// known returns the name of an image whose last part is that of a program in the webhook's table.
func known(name string) string { return "ghcr.io/servingcert/e2e/" + name + ":e2e" }

func main() {
	out := flag.String("out", "bin/e2e/images", "directory for the images")
	scenes := flag.String("scenes", "", "scenes to run; third-party programs are compiled only for these")
	flag.Parse()
	process.Main("images of the scenes", func(ctx context.Context) error { return run(ctx, *out, *scenes) })
}

func run(ctx context.Context, out, scenes string) error {
	picked, err := pick.Parse(scenes)
	if err != nil {
		return err
	}
	return errors.Join(ours(ctx, out), kubernetes(ctx, out), builtOfModules(ctx, out, picked), debian(ctx, out), debianGo(ctx, out), script(ctx, out), plaintext(ctx, out))
}

// ours builds the programs in test/e2e/workloads.
func ours(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "servingcert-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // any rest is in the system's directory for temporary files
	built, err := images.Build(ctx, dir,
		"./test/e2e/workloads/server", "./test/e2e/workloads/client", "./test/e2e/workloads/strict", "./test/e2e/workloads/requester", "./test/e2e/workloads/talk")
	if err != nil {
		return err
	}
	var errs []error
	for _, binary := range built {
		errs = append(errs, ofBinary(out, path.Base(binary), ref(path.Base(binary)), binary))
	}
	return errors.Join(errs...)
}

// kubernetes builds components of Kubernetes.
func kubernetes(ctx context.Context, out string) error {
	names := []string{controlplane.KubeScheduler, controlplane.KubeControllerManager}
	binaries, err := controlplane.Binaries(ctx, os.Stderr, names...)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, ofBinary(out, name, known(name), binaries[name]))
	}
	return errors.Join(errs...)
}

// builtOfModules builds programs of one scene each, which take minutes to compile: metrics-server,
// cert-manager, Prometheus and Traefik.
func builtOfModules(ctx context.Context, out string, picked pick.Scenes) error {
	var errs []error
	for _, p := range []struct{ scene, program, ref string }{
		{"metrics", controlplane.MetricsServer, known(controlplane.MetricsServer)},
		{"certmanager", controlplane.CertManager, ref(controlplane.CertManager)},
		{"prometheus", controlplane.Prometheus, ref(controlplane.Prometheus)},
		{"gateway", controlplane.Traefik, ref(controlplane.Traefik)},
	} {
		if picked.Has(p.scene) {
			errs = append(errs, ofBuilt(ctx, out, p.program, p.ref))
		}
	}
	return errors.Join(errs...)
}

func ofBuilt(ctx context.Context, out, name, ref string) error {
	binaries, err := controlplane.Binaries(ctx, os.Stderr, name)
	if err != nil {
		return err
	}
	return ofBinary(out, name, ref, binaries[name])
}

// debian builds images of Debian's servers and clients; the manifests contain their commands.
func debian(ctx context.Context, out string) error {
	var errs []error
	for name, pkg := range map[string]string{"java": "openjdk-17-jdk-headless", "nginx": "nginx-light", "python": "python3"} {
		errs = append(errs, ofPackage(ctx, out, name, pkg))
	}
	return errors.Join(errs...)
}

// script builds an image for a shell script that requests certificates, and a server.
func script(ctx context.Context, out string) error {
	dir, err := deb.Files(ctx, os.Stderr, "coreutils", "dash", "openssl", "python3")
	if err != nil {
		return err
	}
	binaries, err := controlplane.Binaries(ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		return err
	}
	return withFile(tar(out, "script"), ref("script"), images.Config{}, dir, binaries[controlplane.Kubectl], "usr/bin/kubectl")
}

// plaintext builds images of servers without TLS, and of curl, psql and redis-cli as their clients. It omits
// what PostgreSQL only needs to compile queries and for extensions in Perl, as large as the rest.
func plaintext(ctx context.Context, out string) error {
	dir, err := deb.Files(ctx, os.Stderr, "coreutils", "curl", "dash", "nodejs", "postgresql-15", "redis-server")
	if err != nil {
		return err
	}
	config := images.Config{Env: []string{"PATH=/usr/lib/postgresql/15/bin:/usr/bin"}}
	image, err := images.OfDir(ref("plaintext"), dir, config, "usr/lib/*/libLLVM*", "usr/lib/*/libz3*", "usr/lib/*/*perl*", "usr/lib/*/gconv",
		"usr/lib/postgresql/*/lib/bitcode", "usr/lib/postgresql/*/lib/llvmjit*", "usr/share/*perl*", "usr/share/i18n")
	if err != nil {
		return err
	}
	return image.WriteFile(tar(out, "plaintext"))
}

func ofPackage(ctx context.Context, out, name, pkg string) error {
	dir, err := deb.Files(ctx, os.Stderr, pkg)
	if err != nil {
		return err
	}
	image, err := images.OfDir(ref(name), dir, images.Config{})
	if err != nil {
		return err
	}
	return image.WriteFile(tar(out, name))
}

// goProgram is a Go program in a Debian package.
type goProgram struct {
	name, ref, pkg, file string
	cmd                  []string // the image's default command
}

var goPrograms = []goProgram{
	{"registry", known("distribution/registry"), "docker-registry", "usr/bin/docker-registry", []string{"serve", "/etc/docker/registry/config.yml"}},
	{"nats", ref("nats"), "nats-server", "usr/sbin/nats-server", nil},
	{"node-exporter", known("node-exporter"), "prometheus-node-exporter", "usr/bin/prometheus-node-exporter", nil},
}

// debianGo builds images of Debian's Go programs. Of their packages and dependencies, they only need the
// program itself and the C library.
func debianGo(ctx context.Context, out string) error {
	libc, err := deb.Files(ctx, os.Stderr, "libc6")
	if err != nil {
		return err
	}
	var pkgs []string
	for _, p := range goPrograms {
		pkgs = append(pkgs, p.pkg)
	}
	all, err := deb.Files(ctx, os.Stderr, pkgs...)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range goPrograms {
		errs = append(errs, ofGoProgram(out, p, libc, filepath.Join(all, p.file)))
	}
	return errors.Join(errs...)
}

func ofGoProgram(out string, p goProgram, libc, binary string) error {
	config := images.Config{Entrypoint: []string{"/" + p.file}, Cmd: p.cmd}
	return withFile(tar(out, p.name), p.ref, config, libc, binary, p.file)
}

// withFile writes an image of the files below a directory and of another program.
func withFile(tar, ref string, config images.Config, dir, binary, file string) error {
	work, err := os.MkdirTemp("", "servingcert-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // any rest is in the system's directory for temporary files
	root := filepath.Join(work, "root")
	if err := os.CopyFS(root, os.DirFS(dir)); err != nil {
		return err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	file = filepath.Join(root, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o755)); err != nil {
		return err
	}
	image, err := images.OfDir(ref, root, config)
	if err != nil {
		return err
	}
	return image.WriteFile(tar)
}

func ofBinary(out, name, ref, binary string) error {
	image, err := images.OfBinary(ref, binary, images.Config{})
	if err != nil {
		return err
	}
	return image.WriteFile(tar(out, name))
}

func tar(out, name string) string { return filepath.Join(out, name+".tar") }
