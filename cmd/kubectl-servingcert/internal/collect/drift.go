package collect

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/pki"
)

// others has the Services to which proxies of pods of other namespaces connect.
type others struct {
	*gatherer
	found    places
	services map[types.NamespacedName]*corev1.Service // those that were read; nil for those that do not count
	unread   bool                                     // one that was asked for could not be read
}

// maxDrifted limits the differences that are kept of a workload.
const maxDrifted = 20

// drift records a pod of the workload whose proxy differs from that of a new pod. It records
// none if a Service could not be read, which is a failure of the check.
func (o *others) drift(ctx context.Context, n *doctor.Namespace, w doctor.Workload, pod *corev1.Pod) {
	o.unread = false
	what := choose.Drift(pod, choose.Known{
		In: n.Name, Services: n.Services, Namespace: n.Annotations, Config: choose.Config{TrustDomain: o.trustDomain()},
		Elsewhere: func(namespace, name string) *corev1.Service { return o.service(ctx, namespace, name) },
	})
	if len(what) == 0 || o.unread {
		return
	}
	if n.Drifted == nil {
		n.Drifted = map[string]doctor.Drifted{}
	}
	d := n.Drifted[w.Kind+" "+w.Name]
	d.Pods++
	for _, difference := range what {
		d.LeftOut = d.LeftOut || difference.Kind == choose.LeftOut
		if text := difference.String(); len(d.What) < maxDrifted && !slices.Contains(d.What, text) {
			d.What = append(d.What, text)
		}
	}
	n.Drifted[w.Kind+" "+w.Name] = d
}

// trustDomain returns that of the identities that the CA for clients signs; empty if there is none.
func (o *others) trustDomain() string {
	if o.facts.Identities == nil {
		return ""
	}
	roots, _ := pki.ParseBundle([]byte(o.facts.Identities.CA.Bundle)) // another check reports what is not valid
	for _, root := range roots.Certificates() {
		return pki.TrustDomainOf(root)
	}
	return ""
}

// service returns a Service of an opted-in namespace that requests a certificate, or nil.
func (o *others) service(ctx context.Context, namespace, name string) *corev1.Service {
	id := types.NamespacedName{Namespace: namespace, Name: name}
	svc, known := o.services[id]
	if known {
		return svc
	}
	switch n := o.found[namespace]; {
	case n != nil && n.Labels[api.LabelInject] == api.InjectEnabled:
		if i := slices.IndexFunc(n.Services, func(s *corev1.Service) bool { return s.Name == name }); i >= 0 {
			svc = n.Services[i]
		}
	case n == nil && o.opts.Namespace != "":
		var err error
		if svc, err = o.read(ctx, id); err != nil {
			o.unread = true
			o.failed("Service "+id.String(), err, doctor.Missed)
			return nil // asked for again, it is another failure
		}
	}
	if svc != nil && !api.Asks(svc) {
		svc = nil
	}
	o.services[id] = svc
	return svc
}

// read reads a Service of an opted-in namespace; nil if there is none.
func (o *others) read(ctx context.Context, id types.NamespacedName) (*corev1.Service, error) {
	ns, err := o.client.CoreV1().Namespaces().Get(ctx, id.Namespace, metav1.GetOptions{})
	if err == nil && ns.Labels[api.LabelInject] != api.InjectEnabled || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	svc, err := o.client.CoreV1().Services(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return svc, err
}
