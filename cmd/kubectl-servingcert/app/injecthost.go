package app

import (
	"fmt"
	"io"
	"path"
	"regexp"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/cmd/internal/version"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/hostset"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/preview"
)

// hostFlags are the flags of inject for static pods.
type hostFlags struct {
	on    bool
	dir   string
	image string
}

func (f *hostFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "host", false, "the Pods are static: they read their files from a directory on their node, which hostsync fills, and refer to no API object")
	fs.StringVar(&f.dir, "host-dir", "/etc/servingcert", "hostsync's --dir: the directory on nodes, with a subdirectory for each static pod")
	fs.StringVar(&f.image, "hostsync-image", imageOf("hostsync", version.Get().Version), "image of hostsync, for -o hostsync")
}

func (f *hostFlags) validate(output string, live bool) error {
	switch {
	case !f.on && output == outputHostsync:
		return usagef("-o %s requires --host", outputHostsync)
	case f.on && live:
		return usagef("--host and --live are mutually exclusive: pass the Service with -f to use its annotations")
	case !path.IsAbs(f.dir) || path.Clean(f.dir) != f.dir || f.dir == "/":
		return usagef("--host-dir %q: must be an absolute path without trailing slash", f.dir)
	}
	if detail := api.CheckImage(f.image); detail != "" {
		return usagef("--hostsync-image %q: %s", f.image, detail)
	}
	return nil
}

var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// imageOf returns the image that was released with the version. For other versions, it returns the image that
// "make images" builds.
func imageOf(name, of string) string {
	if !released.MatchString(of) {
		of = version.Images
	}
	return "ghcr.io/servingcert/" + name + ":" + of
}

// files returns the directory on nodes, or "" if the pods are not static.
func (f *hostFlags) files() string {
	if !f.on {
		return ""
	}
	return f.dir
}

// write prints the DaemonSet and the ConfigMap of each injected static pod.
func (f *hostFlags) write(w io.Writer, outcomes []preview.Outcome, table *programs.Table) error {
	if table == nil {
		builtin := programs.Builtin()
		table = &builtin
	}
	for _, o := range outcomes {
		if !o.Report.Injected() {
			continue
		}
		if o.Report.PodKey {
			return fmt.Errorf("Pod %s/%s: Service %s has %s: %s, so only pods that it selects get its certificate, and pods of hostsync are not: set %s, or write the DaemonSet by hand (docs/hosts.md#a-key-for-each-host)",
				o.Namespace, o.Name, o.Report.Service, api.AnnotationKeySource, api.KeySourcePod, api.AnnotationSecretName)
		}
		config, set, err := hostset.Static{
			Pod: o.Pod, Namespace: o.Namespace, Secret: o.Report.Secret, Service: o.Report.Service, Dir: f.dir, Image: f.image, Programs: *table,
		}.Objects()
		if err != nil {
			return err
		}
		for _, object := range []any{config, set} {
			if err := writeObject(w, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeObject prints an object without its status.
func writeObject(w io.Writer, object any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(fields, "status")
	text, err := marshalYAML(fields)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "---\n%s", text)
	return err
}
