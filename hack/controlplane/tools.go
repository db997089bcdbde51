package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tools returns the path of each tool of a module of this repository, by the tool's name: the programs that
// the module's go.mod lists as "tool". Go builds them into its own cache the first time.
func Tools(ctx context.Context, module string) (map[string]string, error) {
	dir, err := findModule(module)
	if err != nil {
		return nil, err
	}
	packages, err := goCommand(ctx, dir, "list", "tool")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for pkg := range strings.FieldsSeq(string(packages)) {
		built, err := goCommand(ctx, dir, "tool", "-n", pkg)
		if err != nil {
			return nil, err
		}
		path := strings.TrimSpace(string(built))
		found[filepath.Base(path)] = path
	}
	return found, nil
}

// download downloads a module that the one in dir requires, if needed, and returns its directory.
func download(ctx context.Context, dir, module string) (string, error) {
	out, err := goCommand(ctx, dir, "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("in %s: go mod download -json %s: %w", dir, module, err)
	}
	return downloaded.Dir, nil
}

// goCommand returns what a go command prints.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, goEnv(), &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("in %s: go %s: %w\n%s%s", dir, strings.Join(args, " "), err, out, errs.Bytes())
	}
	return out, nil
}
