package collect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
	"github.com/servingcert/servingcert/pkg/preview"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// places holds the namespaces with labels, annotations or Services of servingcert, by name.
type places map[string]*doctor.Namespace

// namespaces reads these namespaces, and returns the candidates for the dry run, sorted.
func (g *gatherer) namespaces(ctx context.Context) ([]string, error) {
	found, err := g.optedIn(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.services(ctx, found); err != nil {
		return nil, err
	}
	if err := g.workloads(ctx, found); err != nil {
		return nil, err
	}
	if err := g.pods(ctx, found); err != nil {
		return nil, err
	}
	var open []string
	g.facts.Namespaces = []doctor.Namespace{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n := found[name]
		g.facts.Namespaces = append(g.facts.Namespaces, *n)
		if n.Labels[api.LabelInject] == api.InjectEnabled && !preview.Excluded(name) && name != g.opts.System {
			open = append(open, name)
		}
	}
	return open, nil
}

// each visits the objects that a client lists.
func each[C pages.Lister[L], L, T runtime.Object](ctx context.Context, what string, client C, visit func(T)) error {
	if err := pages.Each(ctx, client, metav1.ListOptions{}, visit); err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// optedIn reads the namespaces that have a label or an annotation of servingcert.
func (g *gatherer) optedIn(ctx context.Context) (places, error) {
	found := places{}
	add := func(ns *corev1.Namespace) {
		_, labelled := ns.Labels[api.LabelInject]
		switch {
		case ns.DeletionTimestamp != nil:
			g.ending[ns.Name] = true
		case labelled || anyOfOurs(ns.Annotations):
			found[ns.Name] = place(ns)
		}
	}
	if g.opts.Namespace != "" {
		ns, err := g.client.CoreV1().Namespaces().Get(ctx, g.opts.Namespace, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		found[ns.Name] = place(ns)
		return found, nil
	}
	return found, each(ctx, "Namespaces", g.client.CoreV1().Namespaces(), add)
}

func place(ns *corev1.Namespace) *doctor.Namespace {
	return &doctor.Namespace{Name: ns.Name, Seen: true, Live: true, Labels: ns.Labels, Annotations: ns.Annotations}
}

// seemsToRequestProxy reports whether a targetPort of the Service requests a proxy, or looks like such a
// request.
func seemsToRequestProxy(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		_, asks := api.ParseProxyPort(p.TargetPort.StrVal)
		return asks || api.LooksLikeProxyPort(p.TargetPort.StrVal)
	})
}

// anyOfOurs reports whether a key has servingcert's prefix.
func anyOfOurs(annotations map[string]string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, api.Domain+"/") {
			return true
		}
	}
	return false
}

// services adds the Services with requests, and their namespaces, also those without the
// label.
func (g *gatherer) services(ctx context.Context, found places) error {
	return each(ctx, "Services", g.client.CoreV1().Services(g.opts.Namespace), func(svc *corev1.Service) {
		if api.Condition(svc, api.ConditionReady) != nil {
			svc = api.Translate(svc) // the signer accepts OpenShift's annotations
		}
		if !anyOfOurs(svc.Annotations) && !seemsToRequestProxy(svc) || g.ending[svc.Namespace] {
			return
		}
		if found[svc.Namespace] == nil { // its namespace has no label
			found[svc.Namespace] = &doctor.Namespace{Name: svc.Namespace, Seen: true, Live: true}
		}
		n := found[svc.Namespace]
		n.Services = append(n.Services, svc)
	})
}

// workloads adds the Deployments, StatefulSets and DaemonSets.
func (g *gatherer) workloads(ctx context.Context, found places) error {
	lacking := map[controller]bool{}
	add := func(meta metav1.ObjectMeta, w doctor.Workload, lacks bool) {
		if n := found[meta.Namespace]; n != nil {
			w.Name, w.Annotations = meta.Name, meta.Annotations
			n.Workloads = append(n.Workloads, w)
			if lacks {
				lacking[controller{meta.Namespace, w.Kind, w.Name, meta.UID}] = true
			}
		}
	}
	ns := g.opts.Namespace
	err := each(ctx, "Deployments", g.client.AppsV1().Deployments(ns), func(d *appsv1.Deployment) {
		add(d.ObjectMeta, doctor.Workload{Kind: "Deployment", Template: d.Spec.Template, Paused: d.Spec.Paused, Failure: failure(d)}, false)
	})
	if err != nil {
		return err
	}
	err = each(ctx, "StatefulSets", g.client.AppsV1().StatefulSets(ns), func(s *appsv1.StatefulSet) {
		add(s.ObjectMeta, doctor.Workload{Kind: "StatefulSet", Template: s.Spec.Template, KeepsOldPods: api.KeepsOldPods(s)}, lacksPods(s))
	})
	if err != nil {
		return err
	}
	err = each(ctx, "DaemonSets", g.client.AppsV1().DaemonSets(ns), func(s *appsv1.DaemonSet) {
		add(s.ObjectMeta, doctor.Workload{Kind: "DaemonSet", Template: s.Spec.Template, KeepsOldPods: api.KeepsOldPods(s)}, s.Status.CurrentNumberScheduled < s.Status.DesiredNumberScheduled)
	})
	if err == nil {
		g.refused(ctx, found, lacking)
	}
	return err
}

// failure returns why the pods of a Deployment are not created, or "".
func failure(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// pods adds the pods of no such workload, and counts the missed ones: those without a
// certificate that a new pod would get.
func (g *gatherer) pods(ctx context.Context, found places) error {
	conventional := g.conventional(ctx)
	elsewhere := others{gatherer: g, found: found, services: map[types.NamespacedName]*corev1.Service{}}
	seen := map[string]bool{}
	return each(ctx, "Pods", g.client.CoreV1().Pods(g.opts.Namespace), func(pod *corev1.Pod) {
		n := found[pod.Namespace]
		if n == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return
		}
		facts := pods.FactsOf(pod)
		w := doctor.PodWorkload(pod)
		if made := facts.Template.Value().Workload; !made.Bare() {
			w.Kind, w.Name = made.Kind, made.Name
			if !made.Restartable() && !seen[pod.Namespace+"/"+made.Kind+"/"+made.Name] {
				seen[pod.Namespace+"/"+made.Kind+"/"+made.Name] = true
				n.Workloads = append(n.Workloads, w)
			}
		} else {
			n.Workloads = append(n.Workloads, w)
		}
		noted(n, w, pod)
		place := uninjected.Place{OptedIn: n.Labels[api.LabelInject] == api.InjectEnabled, Excluded: preview.Excluded(n.Name) || n.Name == g.opts.System, Services: n.Services, Conventional: conventional[n.Name]}
		if uninjected.Evaluate(facts, place).Missed() {
			if n.Missed == nil {
				n.Missed = map[string]int{}
			}
			n.Missed[w.Kind+" "+w.Name]++
		}
		if place.OptedIn && !place.Excluded {
			elsewhere.drift(ctx, n, w, pod)
		}
	})
}

// maxNoted limits the notes of a namespace, because users who create pods in it can write them.
const maxNoted = 100

// noted records the webhook's notes on a pod of the workload that it did not inject.
func noted(n *doctor.Namespace, w doctor.Workload, pod *corev1.Pod) {
	status, _ := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	if status.Reason == "" || len(n.Noted) == maxNoted {
		return
	}
	is := doctor.Noted{Object: w.Kind + " " + w.Name, Labels: pod.Labels, Notes: status.Notes}
	if len(is.Notes) == 0 {
		is.Notes = []string{status.Reason}
	}
	if !slices.ContainsFunc(n.Noted, func(o doctor.Noted) bool { return o.Object == is.Object && slices.Equal(o.Notes, is.Notes) }) {
		n.Noted = append(n.Noted, is)
	}
}

// conventional returns the namespaces with a conventional Secret, from the signer's report;
// it reads no Secret. Users with rights in one namespace may not read the report: the other checks do not need it.
func (g *gatherer) conventional(ctx context.Context) map[string]bool {
	cm, err := g.client.CoreV1().ConfigMaps(g.opts.System).Get(ctx, api.ConventionalStatusName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		g.failed("ConfigMap "+g.opts.System+"/"+api.ConventionalStatusName, err, doctor.Missed)
		return nil
	}
	return api.ParseNamespaces(cm.Data[api.ConventionalNamespacesKey])
}
