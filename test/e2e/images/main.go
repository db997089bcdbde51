// Command images makes the images of the end-to-end scenes' workloads, as files that
// ctr images import and kind load image-archive read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/node/images"
	"github.com/servingcert/servingcert/test/deb"
	"github.com/servingcert/servingcert/test/e2e/pick"
)

// ref is the name of an image, as the scenes' manifests have it.
func ref(name string) string { return "ghcr.io/servingcert/e2e-" + name + ":e2e" }

// known is the name of an image whose last part is that of a program that the webhook
// knows.
func known(name string) string { return "ghcr.io/servingcert/e2e/" + name + ":e2e" }

func main() {
	out := flag.String("out", "bin/e2e/images", "directory for the images")
	scenes := flag.String("scenes", "", "what is to be played; what others wrote is compiled only for that")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out, *scenes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images of the scenes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, scenes string) error {
	picked, err := pick.Parse(scenes)
	if err != nil {
		return err
	}
	return errors.Join(ours(ctx, out), kubernetes(ctx, out), builtOfModules(ctx, out, picked), debian(ctx, out), debianGo(ctx, out), script(ctx, out), plaintext(ctx, out))
}

// ours are the programs in test/e2e/workloads.
func ours(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "servingcert-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what is left is in the system's directory for that
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

// kubernetes are programs that users run.
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

// builtOfModules are programs of one scene each, which take minutes to compile: an API server that the
// control plane calls, what issues certificates, too, what watches it, and a gateway.
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

// debian are servers as Debian has them; the manifests say how they are run.
func debian(ctx context.Context, out string) error {
	var errs []error
	for name, pkg := range map[string]string{"nginx": "nginx-light", "python": "python3"} {
		errs = append(errs, ofPackage(ctx, out, name, pkg))
	}
	return errors.Join(errs...)
}

// script is what a shell script needs that asks for certificates, and a server beside it.
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

// plaintext are servers that know nothing of TLS here, and psql and redis-cli, which are their
// clients. What PostgreSQL needs only to compile its queries, and for extensions in Perl, is as
// large as the rest, and left out.
func plaintext(ctx context.Context, out string) error {
	dir, err := deb.Files(ctx, os.Stderr, "dash", "nodejs", "postgresql-15", "redis-server")
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

// goProgram is a Go program of a Debian package.
type goProgram struct {
	name, ref, pkg, file string
	cmd                  []string // what the image runs without arguments
}

var goPrograms = []goProgram{
	{"registry", known("distribution/registry"), "docker-registry", "usr/bin/docker-registry", []string{"serve", "/etc/docker/registry/config.yml"}},
	{"nats", ref("nats"), "nats-server", "usr/sbin/nats-server", nil},
	{"node-exporter", known("node-exporter"), "prometheus-node-exporter", "usr/bin/prometheus-node-exporter", nil},
}

// debianGo are Go programs as Debian has them. All that they need of their packages and
// of what those depend on is the program itself and the C library.
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

// withFile writes an image of the files below a directory and of one more program.
func withFile(tar, ref string, config images.Config, dir, binary, file string) error {
	work, err := os.MkdirTemp("", "servingcert-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // what is left is in the system's directory for that
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
