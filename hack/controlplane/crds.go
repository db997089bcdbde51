package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// CertManagerCRDs returns the manifests of cert-manager's CustomResourceDefinitions, in the
// version of binary CertManager.
func CertManagerCRDs(ctx context.Context) ([]byte, error) {
	return crds(ctx, "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml")
}

// GatewayCRDs returns the manifests of the Gateway API's CustomResourceDefinitions, in the
// version that cert-manager requires.
func GatewayCRDs(ctx context.Context) ([]byte, error) {
	return crds(ctx, "sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_[^v]*.yaml")
}

// crds returns the files of a module that cert-manager requires.
func crds(ctx context.Context, of, pattern string) ([]byte, error) {
	module, err := findModule(certManagerModule)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", of)
	cmd.Dir, cmd.Env = module, goEnv()
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("in %s: go mod download: %w\n%s", module, err, output)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return nil, fmt.Errorf("in %s: go mod download -json: %w", module, err)
	}
	files, err := filepath.Glob(filepath.Join(downloaded.Dir, filepath.FromSlash(pattern)))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no CustomResourceDefinitions in %s", downloaded.Dir)
	}
	var all []byte
	for _, file := range files {
		data, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		all = append(append(all, "---\n"...), data...)
	}
	return all, err
}
