package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// lookForBundle is how often the ClusterTrustBundle is looked for until it is there.
const lookForBundle = 2 * time.Second

// trustBundle knows whether the ClusterTrustBundle exists that pods get the CA bundle from.
// A nil *trustBundle is that of a webhook whose pods get it from a ConfigMap.
type trustBundle struct {
	get   func(ctx context.Context) error
	log   logr.Logger
	found atomic.Bool
}

// newTrustBundle returns nil unless pods are to get the bundle from the ClusterTrustBundle.
// It returns an error if the API server does not serve that kind: the webhook would make
// pods that nobody accepts.
func newTrustBundle(ctx context.Context, mgr manager.Manager, clientset kubernetes.Interface, cfg Config) (*trustBundle, error) {
	if cfg.TrustSource != api.TrustFromClusterTrustBundle {
		return nil, nil
	}
	version, err := facts.TrustBundles(ctx, clientset.Discovery().RESTClient())
	if err != nil {
		return nil, fmt.Errorf("find out whether ClusterTrustBundles are served: %w", err)
	}
	if version == "" {
		return nil, fmt.Errorf("--trust-source: %q: the API server does not serve ClusterTrustBundles: Kubernetes 1.37 does by default, and 1.33 with feature gates ClusterTrustBundle and ClusterTrustBundleProjection and API certificates.k8s.io/v1beta1; or use %q",
			cfg.TrustSource, api.TrustFromConfigMap)
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterTrustBundle"}}
	b := &trustBundle{log: cfg.Log, get: func(ctx context.Context) error {
		return mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: api.TrustBundleName}, object.DeepCopy())
	}}
	if err := mgr.Add(everyReplica{b.await}); err != nil {
		return nil, fmt.Errorf("set up the webhook: %w", err)
	}
	return b, nil
}

// await looks for the object until it is there, or ctx ends.
func (b *trustBundle) await(ctx context.Context) error {
	said := ""
	for {
		err := b.get(ctx)
		if err == nil {
			b.found.Store(true)
			b.log.Info("pods get the CA bundle from the ClusterTrustBundle", "name", api.TrustBundleName)
			return nil
		}
		if apierrors.IsNotFound(err) {
			err = errNoTrustBundle
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			b.log.Info("not ready: cannot see the ClusterTrustBundle", "why", text)
			said = text
		}
		timer := time.NewTimer(lookForBundle)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// errNoTrustBundle is about a bundle that nobody has written.
var errNoTrustBundle = errors.New("ClusterTrustBundle " + api.TrustBundleName + " does not exist: the rotator writes it if its --targets include ClusterTrustBundle")

// ready returns nil once pods can get the bundle.
func (b *trustBundle) ready() error {
	if b == nil || b.found.Load() {
		return nil
	}
	return errNoTrustBundle
}
