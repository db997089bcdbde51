package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/plan"
)

// withClients adds the clients to the workloads.
func withClients(all []workload, clients []plan.Client) []workload {
	for i := range clients {
		c := &clients[i]
		kind, name, _ := strings.Cut(c.Workload, "/")
		at := slices.IndexFunc(all, func(w workload) bool { return w.kind == kind && w.namespace == c.Namespace && w.name == name })
		if at < 0 {
			at = len(all)
			all = append(all, workload{kind: kind, namespace: c.Namespace, name: name, onlyClient: true})
		}
		all[at].client = c
	}
	return all
}

// unconnected records a client that was not seen to connect.
func (a *Applier) unconnected(w workload, why string) {
	if w.client == nil {
		return
	}
	a.Unconnected = append(a.Unconnected, w.String())
	a.print("%s: not connected: %s", w, why)
}

// narrow limits the client to the Services that serve TLS now: a call through a proxy never falls back to plaintext.
func (a *Applier) narrow(ctx context.Context, w *workload, template *corev1.PodTemplateSpec) error {
	if w.client == nil {
		return nil
	}
	if !w.client.Unchanged(template.Annotations) {
		return fmt.Errorf("%s: annotation %s was changed since the plan was made: run the command again", w, api.AnnotationConnect)
	}
	var whys []string
	var failed error
	c, some := w.client.For(func(namespace, name string) bool {
		why, err := a.servesNot(ctx, namespace, name)
		if failed = errors.Join(failed, err); why != "" {
			whys = append(whys, fmt.Sprintf("Service %s/%s: %s", namespace, name, why))
		}
		return why == "" && err == nil
	})
	if failed != nil {
		return failed
	}
	if len(whys) > 0 {
		slices.Sort(whys)
		a.unconnected(*w, strings.Join(slices.Compact(whys), "; "))
	}
	if w.client = &c; !some {
		w.client = nil
	}
	return nil
}

// servesNot returns why it is not known that the Service serves TLS now; empty if it is.
func (a *Applier) servesNot(ctx context.Context, namespace, name string) (string, error) {
	if slices.Contains(a.Unseen, namespace+"/"+name) {
		return "it was not seen to serve TLS", nil // its condition may be about earlier pods
	}
	svc, err := a.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "it does not exist", nil
	case err != nil:
		return "", fmt.Errorf("Service %s/%s: %w", namespace, name, err)
	}
	c := api.Condition(svc, api.ConditionServing)
	switch {
	case c == nil:
		return "condition " + api.ConditionServing + " is not set", nil
	case c.Status != metav1.ConditionTrue:
		return fmt.Sprintf("condition %s is %s, %s", api.ConditionServing, c.Status, api.Escape(c.Reason)), nil
	case !state.ServingIsOfNow(svc):
		return "condition " + api.ConditionServing + " is about an earlier certificate or other ports", nil
	}
	return "", nil
}

// annotations returns the annotations of the template with that of the client.
func (w workload) annotations(template *corev1.PodTemplateSpec) map[string]string {
	if w.client == nil || w.client.Connect == "" {
		return template.Annotations
	}
	out := maps.Clone(template.Annotations)
	if out == nil {
		out = map[string]string{}
	}
	out[api.AnnotationConnect] = w.client.Connect
	return out
}

// notConnected returns a host of the client's Services to which the pod does not connect; empty if there is none.
func (w workload) notConnected(pod *corev1.Pod) string {
	if w.client == nil {
		return ""
	}
	proxy, _ := api.ProxyOf(pod)
	for _, host := range w.client.Hosts() {
		if !slices.ContainsFunc(proxy.Connects, func(c api.ProxyConnect) bool { return c.Host == host }) {
			return host
		}
	}
	return ""
}

// annotate sets the annotation of the pod template, unless somebody else has changed it.
func (a *Applier) annotate(ctx context.Context, w workload, object runtime.Object) error {
	for i := 1; ; i++ {
		about, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		err = a.patchWorkload(ctx, w, w.client.Merge(string(about.GetUID()), about.GetResourceVersion()))
		if !apierrors.IsConflict(err) || i == attempts {
			return err
		}
		var template *corev1.PodTemplateSpec
		if object, template, err = a.read(ctx, w); err != nil {
			return err
		}
		if !w.client.Unchanged(template.Annotations) {
			return fmt.Errorf("annotation %s was changed since the plan was made: run the command again", api.AnnotationConnect)
		}
	}
}

// seeConnected looks whether all pods of a client connect to its Services, and records it if they do not.
func (a *Applier) seeConnected(ctx context.Context, w workload, template *corev1.PodTemplateSpec) error {
	if w.client == nil {
		return nil
	}
	why := ""
	err := a.until(ctx, a.Timing.Endpoints, func(ctx context.Context) (bool, error) {
		all, err := a.podsOf(ctx, w, template)
		if why = "it has no pod"; len(all) > 0 {
			why = ""
		}
		for _, pod := range all {
			if host := w.notConnected(pod); host != "" {
				why = fmt.Sprintf("pod %s does not connect to %s: %s", api.Escape(pod.Name), host, webhookStatus(pod))
			}
		}
		return why == "", err
	})
	switch {
	case errors.Is(err, errTimeout):
		a.unconnected(w, why)
	case err != nil:
		return err
	default:
		a.print("%s: the proxies of its pods connect to %s", w, strings.Join(w.client.Hosts(), ", "))
	}
	return nil
}

// tryClients sends the annotations of the clients as dry runs.
func (a *Applier) tryClients(ctx context.Context, clients []plan.Client) error {
	for _, w := range withClients(nil, clients) {
		object, template, err := a.read(ctx, w)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", w, err)
		case !w.client.Unchanged(template.Annotations):
			return fmt.Errorf("%s: annotation %s was changed since the plan was made: run the command again", w, api.AnnotationConnect)
		case w.client.Connect == "":
			continue
		}
		if err := a.annotate(ctx, w, object); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
		a.print("%s: annotation %s=%s%s", w, api.AnnotationConnect, w.client.Connect, a.would())
	}
	return nil
}
