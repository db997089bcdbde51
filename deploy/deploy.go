// Package deploy holds the manifests of servingcert for those who apply them from
// Go: the tests and the demo. People use kubectl (README.md).
package deploy

import (
	"bufio"
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

// Objects returns the objects of install.yaml, in its order.
func Objects() ([]*unstructured.Unstructured, error) {
	objects, err := Decode(install)
	if err != nil {
		return nil, fmt.Errorf("install.yaml: %w", err)
	}
	return objects, nil
}

// Program returns which program of cmd a process of install.yaml runs, and the flag that
// makes it that process. The process is named as its Deployment, without "servingcert-".
func Program(process string) (program string, flags []string) {
	switch process {
	case "trust":
		return "rotator", []string{"--controllers=trust"}
	case "rotator":
		return "rotator", []string{"--controllers=pods"}
	}
	return process, nil
}

// Decode returns the objects of a manifest, in its order. A key that stands twice
// in one mapping is an error.
func Decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if len(content) > 0 { // a comment between two separators is a document too
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}

// Apply applies install.yaml server-side, as
//
//	kubectl apply --server-side --field-manager=OWNER -f install.yaml
//
// does. The API server refuses unknown and doubled fields of an apply.
func Apply(ctx context.Context, c client.Client, owner string) error {
	objects, err := Objects()
	if err != nil {
		return err
	}
	return ApplyObjects(ctx, c, owner, objects)
}

// ApplyObjects applies the objects as Apply does, one after the other.
func ApplyObjects(ctx context.Context, c client.Client, owner string, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(owner)); err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
		}
	}
	return nil
}
