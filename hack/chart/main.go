// Command chart renders deploy/chart, the only source of the manifests:
//
//	chart generate     writes install.yaml and the other files that are generated from the chart
//	chart check        fails if a generated file is outdated
//	chart render       prints the objects for other values: -namespace, -f, -set
//	chart package      writes the archive and install.yaml of a release
//
// Run it in hack/chart, a separate module (make generate, make chart-test).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// repository is the root of the repository, relative to the module.
const repository = "../.."

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("a command is required: generate, check, render or package")
	}
	switch args[0] {
	case "generate":
		files, err := generated(repository)
		if err != nil {
			return err
		}
		return write(repository, files)
	case "check":
		files, err := generated(repository)
		if err != nil {
			return err
		}
		return check(repository, files)
	case "render":
		return render(args[1:])
	case "package":
		return runPackage(args[1:])
	}
	return fmt.Errorf("%q: unknown command: must be generate, check, render or package", args[0])
}

// render prints the objects that Helm would install.
func render(args []string) error {
	flags := flag.NewFlagSet("chart render", flag.ContinueOnError)
	namespace := flags.String("namespace", defaultNamespace, "namespace of the release")
	values := map[string]any{}
	flags.Func("f", "file with values; may be given several times", func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return yaml.Unmarshal(data, &values)
	})
	flags.Func("set", "KEY=VALUE, as in helm; may be given several times", func(s string) error { return strvals.ParseInto(s, values) })
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := load(filepath.Join(repository, chartDir))
	if err != nil {
		return err
	}
	r, err := c.render(*namespace, values)
	if err != nil {
		return err
	}
	text, err := r.text(r.names()...)
	if err != nil {
		return err
	}
	fmt.Print(text)
	return nil
}

// owned are the directories that only contain generated files.
var owned = []string{"deploy/kustomize", "deploy/chart/files", "deploy/chart/dashboards"}

// write writes the files, with paths relative to root, and removes other files from the owned directories.
func write(root string, files map[string][]byte) error {
	stale, err := unknown(root, files)
	if err != nil {
		return err
	}
	for _, path := range stale {
		if err := os.Remove(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error that names the outdated files.
func check(root string, files map[string][]byte) error {
	differ, err := unknown(root, files)
	if err != nil {
		return err
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(got, want) {
			differ = append(differ, path)
		}
	}
	if len(differ) > 0 {
		slices.Sort(differ)
		return fmt.Errorf("outdated: change deploy/chart and run make generate: %s", strings.Join(differ, ", "))
	}
	return nil
}

// unknown returns the files in the owned directories that are not generated.
func unknown(root string, files map[string][]byte) ([]string, error) {
	var found []string
	for _, dir := range owned {
		err := fs.WalkDir(os.DirFS(root), dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !d.IsDir() && files[path] == nil {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
