package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
)

// workload is rolled out once for all Services of a wave that select its pods.
type workload struct {
	kind, namespace, name string
	wants                 []string // targetPorts at which the proxy must listen
	client                *plan.Client
	onlyClient            bool // it is not rolled out for its own Services
}

func (w workload) String() string { return w.namespace + "/" + w.kind + "/" + w.name }

// rollOut replaces the pods of the Services' workloads, one workload after the other, once a new pod of each has been
// tried. It returns these, and those whose pods must be replaced by hand.
func (a *Applier) rollOut(ctx context.Context, steps []*step, clients []plan.Client) (replaced, byHand []string, err error) {
	due, byHand, err := a.due(ctx, withClients(workloadsOf(steps), clients))
	if err != nil {
		return nil, nil, err
	}
	for i, w := range due {
		object, template, err := a.read(ctx, w)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", w, err)
		}
		if i > 0 { // the pods before may have used up a quota
			if err := a.try(ctx, w, template); err != nil {
				return nil, nil, err
			}
		}
		for _, s := range steps {
			if s.hasAny([]string{w.String()}) {
				if err := a.recordServing(ctx, s); err != nil {
					return nil, nil, err
				}
			}
		}
		if err := a.restart(ctx, w, object); err != nil {
			return nil, nil, err
		}
		if err := a.seeConnected(ctx, w, template); err != nil {
			return nil, nil, err
		}
		replaced = append(replaced, w.String())
	}
	return replaced, byHand, nil
}

// due tries a new pod of each workload, before any pod is replaced. It returns those that must be rolled out, and those
// whose pods must be replaced by hand.
func (a *Applier) due(ctx context.Context, all []workload) (due []workload, byHand []string, err error) {
	for _, w := range all {
		if !api.Restartable(w.kind) {
			a.print("%s: replace its pods yourself: restarting a %s is not supported", w, w.kind)
			byHand = append(byHand, w.String())
			continue
		}
		object, template, err := a.read(ctx, w)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", w, err)
		}
		if err := a.narrow(ctx, &w, template); err != nil {
			return nil, nil, err
		}
		has, err := a.hasAll(ctx, w, template)
		switch {
		case err != nil:
			return nil, nil, err
		case w.client == nil && w.onlyClient:
			continue
		case has:
			a.print("%s: its pods already have the proxy", w)
			continue
		}
		if err := a.try(ctx, w, template); err != nil {
			return nil, nil, err
		}
		if rollout, _ := restart.WorkloadStatusOf(object); rollout.KeepsPods() {
			a.print("%s: replace its pods yourself: it is paused, or its update strategy is OnDelete", w)
			byHand = append(byHand, w.String())
			a.unconnected(w, "its annotation was not set")
			continue
		}
		due = append(due, w)
	}
	return due, byHand, nil
}

// hasAll reports whether all pods of the workload have the proxy of each wanted port, because they were replaced for
// another Service or by an interrupted run.
func (a *Applier) hasAll(ctx context.Context, w workload, template *corev1.PodTemplateSpec) (bool, error) {
	if len(w.wants) == 0 && w.client == nil || w.client != nil && w.client.Connect != "" {
		return false, nil
	}
	all, err := a.podsOf(ctx, w, template)
	if err != nil {
		return false, err
	}
	lacks := func(pod *corev1.Pod) bool {
		return w.notConnected(pod) != "" || slices.ContainsFunc(w.wants, func(port string) bool { return !proxies(pod, port) })
	}
	return len(all) > 0 && !slices.ContainsFunc(all, lacks), nil
}

// podsOf returns the pods of the workload that run, or are to run.
func (a *Applier) podsOf(ctx context.Context, w workload, template *corev1.PodTemplateSpec) (out []*corev1.Pod, err error) {
	list, err := a.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(template.Labels).String()})
	if err != nil {
		return nil, fmt.Errorf("pods of %s: %w", w, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		made := pods.FactsOf(pod).Template.Value().Workload
		if made.Kind == w.kind && made.Name == w.name && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			out = append(out, pod)
		}
	}
	return out, nil
}

// workloadsOf returns the workloads of the Services, each once.
func workloadsOf(steps []*step) (out []workload) {
	for _, s := range steps {
		for _, id := range s.Workloads {
			if slices.Contains(s.Without, id) {
				continue
			}
			kind, name, _ := strings.Cut(id, "/")
			i := slices.IndexFunc(out, func(w workload) bool { return w.kind == kind && w.namespace == s.Namespace && w.name == name })
			if i < 0 {
				i = len(out)
				out = append(out, workload{kind: kind, namespace: s.Namespace, name: name})
			}
			for _, p := range s.Ports {
				switch {
				case p.Proxy != "":
					out[i].wants = append(out[i].wants, p.Proxy)
				case p.Today == plan.TodayAsked:
					out[i].wants = append(out[i].wants, p.Target)
				}
			}
		}
	}
	return out
}

// read returns the workload, and the template of its pods.
func (a *Applier) read(ctx context.Context, w workload) (runtime.Object, *corev1.PodTemplateSpec, error) {
	apps := a.Client.AppsV1()
	switch w.kind {
	case "Deployment":
		d, err := apps.Deployments(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		return d, &d.Spec.Template, err
	case "StatefulSet":
		s, err := apps.StatefulSets(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		return s, withClaims(s), err
	}
	d, err := apps.DaemonSets(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
	return d, &d.Spec.Template, err
}

// withClaims returns the template with the volumes that the controller adds for the claims of the first pod.
func withClaims(s *appsv1.StatefulSet) *corev1.PodTemplateSpec {
	template := s.Spec.Template.DeepCopy()
	for _, claim := range s.Spec.VolumeClaimTemplates {
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == claim.Name })
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + s.Name + "-0"},
		}})
	}
	return template
}

// try creates a new pod as a dry run, so that a refusal by quotas, Pod Security or other webhooks is found
// before a running pod is replaced.
func (a *Applier) try(ctx context.Context, w workload, template *corev1.PodTemplateSpec) error {
	allowed, err := cluster.Allowed(ctx, a.Client, authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Namespace: w.namespace})
	if err != nil {
		return err
	}
	if !allowed {
		a.print("%s: a new pod was not tried, because this user may not create pods", w)
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: w.name + "-", Labels: template.Labels, Annotations: w.annotations(template)}, Spec: template.Spec}
	made, err := a.Client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: a.FieldManager})
	if err != nil {
		return fmt.Errorf("%s: a new pod would be refused, so none of its pods was replaced: %w", w, err)
	}
	if made.Labels[api.LabelInjected] == "" {
		return fmt.Errorf("%s: a new pod would not be injected, so none of its pods was replaced: %s", w, webhookStatus(made))
	}
	for _, port := range w.wants {
		if !proxies(made, port) {
			return fmt.Errorf("%s: a new pod would have no proxy for %s, so none of its pods was replaced: %s", w, port, webhookStatus(made))
		}
	}
	if host := w.notConnected(made); host != "" {
		return fmt.Errorf("%s: the proxy of a new pod would not connect to %s, so none of its pods was replaced: %s", w, host, webhookStatus(made))
	}
	return nil
}

// proxies reports whether the pod has the proxy of the port.
func proxies(pod *corev1.Pod, name string) bool {
	proxy, _ := api.ProxyOf(pod)
	return slices.ContainsFunc(proxy.Listeners, func(l api.ProxyListener) bool { return l.Name == name })
}

// webhookStatus returns the webhook's annotation on the pod.
func webhookStatus(pod *corev1.Pod) string {
	if text := pod.Annotations[api.AnnotationStatus]; text != "" {
		return "annotation " + api.AnnotationStatus + " is " + api.Escape(api.Shorten(text, maxQuoted))
	}
	return "the webhook did nothing: see kubectl servingcert doctor"
}

// restart replaces the pods as kubectl rollout restart does, or by the annotation of a client, and waits for the rollout.
func (a *Applier) restart(ctx context.Context, w workload, object runtime.Object) error {
	var err error
	if w.client != nil && w.client.Connect != "" {
		err = a.annotate(ctx, w, object)
	} else {
		patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, restart.AnnotationRestartedAt, time.Now().UTC().Format(time.RFC3339))
		err = a.patchWorkload(ctx, w, patch)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	a.print("%s: rolling out", w)
	var rollout restart.WorkloadStatus
	err = a.until(ctx, a.Timeout, func(ctx context.Context) (bool, error) {
		object, _, err := a.read(ctx, w)
		rollout, _ = restart.WorkloadStatusOf(object)
		return rollout.Done(), err
	})
	switch {
	case errors.Is(err, errTimeout) && w.onlyClient:
		return fmt.Errorf("%s: the rollout did not finish within %s (%s). Its old pods continue as before. To go back: %s", w, a.Timeout, rollout.Progress(), cmp.Or(w.client.Back(), w.undo()))
	case errors.Is(err, errTimeout):
		return fmt.Errorf("%s: the rollout did not finish within %s (%s). Its old pods continue without TLS. To go back: remove what was added to its Services, then: %s", w, a.Timeout, rollout.Progress(), w.undo())
	}
	return err
}

// undo returns the command that brings the pods before the rollout back.
func (w workload) undo() string {
	return api.CommandText([]string{w.namespace, w.name}, "kubectl", "rollout", "undo", strings.ToLower(w.kind)+"/"+w.name, "-n", w.namespace)
}

func (a *Applier) patchWorkload(ctx context.Context, w workload, patch []byte) (err error) {
	switch apps := a.Client.AppsV1(); w.kind {
	case "Deployment":
		_, err = apps.Deployments(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, patch, a.options())
	case "StatefulSet":
		_, err = apps.StatefulSets(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, patch, a.options())
	default:
		_, err = apps.DaemonSets(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, patch, a.options())
	}
	return err
}
