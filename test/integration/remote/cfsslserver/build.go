package cfsslserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds cfssl and multirootca into dir, of the version that hack/cfssl
// pins. Go's build cache makes all but the first time quick.
func Build(dir string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+string(filepath.Separator), "tool")
	cmd.Dir = filepath.Join(root, "hack/cfssl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("in hack/cfssl: go build tool: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// repository finds the repository's root from the working directory upwards.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack/cfssl/go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository: no hack/cfssl/go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
}
