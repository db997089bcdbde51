package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// Options are the settings of the installation, and state that manifests do not contain.
type Options struct {
	// ClusterDomain is the domain of Services; "cluster.local" if empty.
	ClusterDomain string
	// Config is the webhook's configuration.
	choose.Config
	// OpenShift is true if OpenShift's annotations are supported too.
	OpenShift bool
	// System is the namespace of servingcert itself.
	System string
	// Live is true if the Services are those of a cluster, where the rotator reports what it has seen.
	Live bool
	// NoRotator is why condition Serving may be outdated: no rotator runs. Empty if one does.
	NoRotator string
	// Endpoints are the ready endpoints of the Services; nil if unknown, as for manifests.
	Endpoints Endpoints
	// Quotas are the ResourceQuotas of the namespaces.
	Quotas []*corev1.ResourceQuota
}

// Workload is an object that creates pods, or a pod without an owner.
type Workload struct {
	Kind, Namespace, Name string
	Pod                   *corev1.Pod // from its template
	// Object is its manifest, decoded or typed, and Template the path of the pod template in it. A plan has no
	// complete manifest of a workload without them.
	Object   any
	Template []any
}

// String returns KIND/NAME.
func (w Workload) String() string { return w.Kind + "/" + w.Name }

// Builder collects the objects for a Plan.
type Builder struct {
	opts       Options
	index      *index
	namespaces map[string]*corev1.Namespace
	workloads  []Workload
	byLabel    map[label][]int  // the workloads with a label
	users      map[key][]string // of ConfigMaps
	secured    map[string]bool  // Services that a BackendTLSPolicy names: NAMESPACE/NAME, or NAMESPACE/NAME:PORTNAME
	unread     []string
	contents   map[key]map[string]any // the manifests of the Services
	policies   map[string][]*networkingv1.NetworkPolicy
	running    map[string]*running // by namespace and workload
	byID       map[string][]int    // the workloads by namespace and workload
	called     map[key]Called      // by Service
	guarded    bool                // a pod's proxy reads which clients it admits
}

// label is one label of the pods of a namespace.
type label struct{ namespace, key, value string }

// New returns a Builder for the Services. A namespace that is not in the list may be opted in.
func New(services []*corev1.Service, namespaces []*corev1.Namespace, opts Options) *Builder {
	contents := map[key]map[string]any{}
	for _, svc := range services {
		contents[key{svc.Namespace, svc.Name}] = manifestOf(svc)
	}
	if opts.OpenShift {
		services = slices.Clone(services)
		for i, svc := range services {
			services[i] = api.Translate(svc)
		}
	}
	b := &Builder{
		opts: opts, index: newIndex(services, opts.ClusterDomain), namespaces: map[string]*corev1.Namespace{},
		byLabel: map[label][]int{}, users: map[key][]string{}, secured: map[string]bool{}, contents: contents, policies: map[string][]*networkingv1.NetworkPolicy{}, running: map[string]*running{}, byID: map[string][]int{}, called: map[key]Called{},
	}
	for _, ns := range namespaces {
		b.namespaces[ns.Name] = ns
	}
	for _, svc := range services {
		b.addService(svc)
	}
	return b
}

// Unread records something that could not be read.
func (b *Builder) Unread(what string) { b.unread = append(b.unread, what) }

// AddWorkload records a workload and the Services that it refers to.
func (b *Builder) AddWorkload(w Workload) {
	for k, v := range w.Pod.Labels {
		l := label{w.Namespace, k, v}
		b.byLabel[l] = append(b.byLabel[l], len(b.workloads))
	}
	id := w.Namespace + " " + w.String()
	b.byID[id] = append(b.byID[id], len(b.workloads))
	b.workloads = append(b.workloads, w)
	b.referencesOf(w)
	for name := range configMapsOf(w.Pod) {
		k := key{w.Namespace, name}
		if len(b.users[k]) < maxUsers && !slices.Contains(b.users[k], w.String()) {
			b.users[k] = append(b.users[k], w.String())
		}
	}
}

// maxUsers is the number of workloads that are listed as users of a ConfigMap.
const maxUsers = 20

// behind returns the workloads that the Service selects.
func (b *Builder) behind(svc *corev1.Service) []Workload {
	var candidates []int
	first := true
	for k, v := range svc.Spec.Selector { // take the shortest list
		if list := b.byLabel[label{svc.Namespace, k, v}]; first || len(list) < len(candidates) {
			candidates, first = list, false
		}
	}
	var out []Workload
	for _, i := range candidates {
		if w := b.workloads[i]; api.Selects(svc, w.Pod) && !api.OneShot(w.Pod) {
			out = append(out, w)
		}
	}
	return out
}

// optedIn returns whether the namespace is opted in, and whether that is known.
func (b *Builder) optedIn(namespace string) (in, known bool) {
	ns := b.namespaces[namespace]
	if ns == nil {
		return true, false
	}
	return ns.Labels[api.LabelInject] == api.InjectEnabled, true
}

func (b *Builder) isOptedIn(namespace string) bool {
	in, _ := b.optedIn(namespace)
	return in
}

// known returns the webhook's view of a namespace with only these Services, and those of others.
func (b *Builder) known(namespace string, services ...*corev1.Service) choose.Known {
	k := choose.Known{
		In: namespace, Services: services, Namespace: map[string]string{},
		Config: b.opts.Config,
	}
	k.Elsewhere = func(namespace, name string) *corev1.Service {
		if e, in := b.index.services[key{namespace, name}], b.isOptedIn(namespace); e != nil && in && api.Asks(e.svc) {
			return e.svc
		}
		return nil
	}
	if ns := b.namespaces[namespace]; ns != nil {
		maps.Copy(k.Namespace, ns.Annotations)
	}
	return k
}
