package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	dir, err := download(ctx, module, of)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no CustomResourceDefinitions in %s", dir)
	}
	var all []byte
	for _, file := range files {
		data, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		all = append(append(all, "---\n"...), data...)
	}
	return all, err
}
