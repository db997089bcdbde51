// Command chart renders deploy/chart, the only source of the manifests:
//
//	chart generate     writes install.yaml and the other files that are generated from the chart
//	chart check        fails if a generated file is outdated
//	chart package      writes the archive and install.yaml of a release
//
// Run it in hack/chart, a separate module (make generate, make chart-test).
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		return errors.New("a command is required: generate, check or package")
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
	case "package":
		return runPackage(args[1:])
	}
	return fmt.Errorf("%q: unknown command: must be generate, check or package", args[0])
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
