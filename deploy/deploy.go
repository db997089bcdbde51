// Package deploy holds the manifests of servingcert for those who apply them from
// Go: the tests and the demo. People use kubectl (README.md).
package deploy

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

//go:embed install.yaml
var install []byte

// Objects returns the objects of install.yaml, in its order. A key that stands
// twice in one mapping is an error.
func Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(install)))
	defer func() { _ = documents.Close() }() // reads from memory
	buffer := make([]byte, len(install))
	for n := 1; ; n++ {
		size, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("install.yaml, document %d: %w", n, err)
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(buffer[:size], &content); err != nil {
			return nil, fmt.Errorf("install.yaml, document %d: %w", n, err)
		}
		if len(content) > 0 { // the comment at the top is a document too
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}

// Apply applies install.yaml server-side, as
//
//	kubectl apply --server-side --field-manager=OWNER -f install.yaml
//
// does. The API server refuses unknown and doubled fields of an apply.
func Apply(ctx context.Context, c client.Client, owner string) ([]*unstructured.Unstructured, error) {
	objects, err := Objects()
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(owner)); err != nil {
			return nil, fmt.Errorf("apply %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
		}
	}
	return objects, nil
}
