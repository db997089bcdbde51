package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A Bundle is the ClusterTrustBundle with the roots that verify clients. It is the only target of their
// CA, so that what it holds shows which roots kubelets have been given.
type Bundle struct {
	// Version is the API version in which ClusterTrustBundles are served.
	Version string
	reader  client.Reader
	writer  client.Writer
}

func (b *Bundle) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(b.Version)
	o.SetKind("ClusterTrustBundle")
	o.SetName(api.ClientBundleName)
	return o
}

// metadata returns the type that is watched.
func (b *Bundle) metadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: b.Version, Kind: "ClusterTrustBundle"}}
}

// read returns the roots in PEM, and whether the ClusterTrustBundle exists.
func (b *Bundle) read(ctx context.Context) (roots string, found bool, err error) {
	o := b.object()
	switch err := b.reader.Get(ctx, client.ObjectKeyFromObject(o), o); {
	case apierrors.IsNotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read ClusterTrustBundle %s: %w", api.ClientBundleName, err)
	}
	roots, _, _ = unstructured.NestedString(o.Object, "spec", "trustBundle") // another form is another bundle
	return roots, true, nil
}

// trust returns the trust status of the CA. A bundle that cannot be parsed is held by no target.
func (b *Bundle) trust(ctx context.Context) (s api.TrustStatus, err error) {
	s.Targets = 1
	roots, found, err := b.read(ctx)
	if err != nil || !found {
		return s, err
	}
	if held, err := pki.ParseBundle([]byte(roots)); err == nil {
		s.BundleHash, s.Holding = held.Hash(), 1
	}
	return s, nil
}

// publish writes the roots if the ClusterTrustBundle does not have them.
func (b *Bundle) publish(ctx context.Context, roots string) error {
	held, _, err := b.read(ctx)
	if err != nil || held == roots {
		return err
	}
	o := b.object()
	o.SetLabels(objectLabels)
	o.Object["spec"] = map[string]any{"signerName": api.ClientSignerName, "trustBundle": roots}
	err = b.writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(fieldManager), client.ForceOwnership)
	return writeError("ClusterTrustBundle", api.ClientBundleName, err)
}
