package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/servingcert/servingcert/deploy"
)

// notInstalled are the processes that deploy/install.yaml has no container for: the webhook adds the
// proxy to pods, and hostsync runs on hosts.
var notInstalled = []string{"proxy", Hostsync}

// Hostsync is the process that writes files on hosts; its image is not in the chart.
const Hostsync = "hostsync"

// processes are all processes: their names are those of commands in cmd, containers and entrypoints.
var processes = append([]string{"webhook", "signer", "rotator"}, notInstalled...)

// Processes returns the names of the project's images.
func Processes() []string { return slices.Clone(processes) }

// Installed reports whether deploy/install.yaml has a container of the process.
func Installed(process string) bool { return !slices.Contains(notInstalled, process) }

// Labels returns the labels of an image of the project.
func Labels(process string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    process,
		"org.opencontainers.image.source":   "https://github.com/servingcert/servingcert",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// Files returns the files of an image of the project, beside its program. The proxy must not look up names in the pod's
// /etc/hosts, which leads from Services to the proxy.
func Files(process string) map[string]string {
	if process != "proxy" {
		return nil
	}
	return map[string]string{"etc/nsswitch.conf": "hosts: dns\n"}
}

// Project builds the processes and their images, with the names in deploy/install.yaml, and writes each
// to DIR/NAME.tar. It returns the files.
func Project(ctx context.Context, dir string) ([]string, error) {
	refs, err := installRefs()
	if err != nil {
		return nil, err
	}
	bin, err := os.MkdirTemp("", "images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	var packages []string
	for _, name := range processes {
		packages = append(packages, "./cmd/"+name)
	}
	built, err := Build(ctx, bin, packages...)
	if err != nil {
		return nil, err
	}
	var files []string
	for i, name := range processes {
		ref, ok := refs[name]
		if !ok {
			return nil, fmt.Errorf("deploy/install.yaml has no container %s", name)
		}
		image, err := OfBinary(ref, built[i], Config{Labels: Labels(name), Files: Files(name)})
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, name+".tar")
		if err := image.WriteFile(file); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// installRefs returns the images in deploy/install.yaml by the names of their containers.
func installRefs() (map[string]string, error) {
	objects, err := deploy.Objects()
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for _, object := range objects {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return nil, fmt.Errorf("deploy/install.yaml: %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		for _, container := range containers {
			fields, ok := container.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("deploy/install.yaml: %s %s: a container is not a mapping", object.GetKind(), object.GetName())
			}
			name, _, _ := unstructured.NestedString(fields, "name")
			refs[name], _, _ = unstructured.NestedString(fields, "image")
		}
	}
	// The other images have the repository and the tag of the webhook's.
	for _, name := range notInstalled {
		refs[name] = strings.Replace(refs["webhook"], "/webhook:", "/"+name+":", 1)
	}
	return refs, nil
}
