// Package collect reads the facts of package doctor from a cluster. It changes nothing,
// except for a namespace that it creates and deletes on request.
package collect

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// Options select the checks.
type Options struct {
	// System is the namespace of servingcert.
	System string
	// Before: servingcert is not installed yet.
	Before bool
	// Namespace is the one whose Services and workloads are checked; "" for all.
	Namespace string
	// Kubelets: the kubelets are dialled from this machine.
	Kubelets bool
	// DryRunNamespace is the namespace of the dry run; "" for the first that is opted in.
	DryRunNamespace string
	// CreateNamespace: if no namespace is opted in, one is created for the dry run.
	CreateNamespace bool
}

// gatherer reads the facts of one cluster.
type gatherer struct {
	opts   Options
	client kubernetes.Interface
	served []*restmapper.APIGroupResources
	mapper meta.RESTMapper
	facts  doctor.Facts
	clock  *cluster.Clock
	ending map[string]bool // namespaces that are being deleted
}

// Gather returns the facts of the cluster, and the time of its API server. Objects that cannot
// be read are in Failures. It returns an error if the API server does not answer or does not
// know the user, or if a namespace of the options does not exist.
func Gather(ctx context.Context, cfg *rest.Config, opts Options) (doctor.Facts, time.Time, error) {
	g := gatherer{opts: opts, ending: map[string]bool{}}
	cfg, g.clock = cluster.Dated(cfg)
	var err error
	if g.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return doctor.Facts{}, time.Time{}, err
	}
	if g.served, err = restmapper.GetAPIGroupResources(g.client.Discovery()); err != nil {
		return doctor.Facts{}, time.Time{}, fmt.Errorf("discover the API resources: %w", err)
	}
	g.mapper = restmapper.NewDiscoveryRESTMapper(g.served)
	if err := g.namedExist(ctx); err != nil {
		return doctor.Facts{}, time.Time{}, err
	}
	if opts.Before {
		err = g.platform(ctx)
	} else {
		g.installed(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	return g.facts, g.clock.Now(), err
}

// namedExist returns an error if a namespace of the options does not exist. If the user may
// not read it, the checks that need it fail later.
func (g *gatherer) namedExist(ctx context.Context) error {
	for _, named := range []struct{ flag, namespace string }{{"--namespace", g.opts.Namespace}, {"--dry-run-namespace", g.opts.DryRunNamespace}} {
		if named.namespace == "" {
			continue
		}
		if _, err := g.client.CoreV1().Namespaces().Get(ctx, named.namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return fmt.Errorf("%s %q: the namespace does not exist", named.flag, named.namespace)
		}
	}
	return nil
}

func (g *gatherer) installed(ctx context.Context) {
	g.authority(ctx)
	g.identities(ctx)
	namespaces, err := g.namespaces(ctx)
	if err != nil {
		g.failed("Namespaces, Services and workloads", err, doctor.Value, doctor.UnknownKey, doctor.WebhookReached)
	}
	g.installation(ctx, namespaces)
}

// failed records a read that failed, and the checks that need it.
func (g *gatherer) failed(what string, err error, checks ...doctor.ID) {
	kind := doctor.ReadFailed
	if apierrors.IsForbidden(err) {
		kind = doctor.ReadForbidden
	}
	g.facts.Failures = append(g.facts.Failures, doctor.Failure{What: what, Why: err.Error(), Kind: kind, Checks: checks})
}

// serves reports whether the API server serves a resource of a group, in the version or, if
// that is "", in any.
func (g *gatherer) serves(group, version, resource string) bool {
	for _, served := range g.served {
		if served.Group.Name != group {
			continue
		}
		for v, resources := range served.VersionedResources {
			for _, r := range resources {
				if r.Name == resource && (version == "" || v == version) {
					return true
				}
			}
		}
	}
	return false
}

// resource returns the resource of a kind, and whether it is namespaced.
func (g *gatherer) resource(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	m, err := g.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	return m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}
