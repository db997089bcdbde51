package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/preview"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// Known is preview.Options.Live. If the user may not read the conventional Secret, the
// preview is made without it.
func (c *Cluster) Known(ctx context.Context, namespace string) (choose.Known, bool, error) {
	ns, err := c.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return choose.Known{}, false, nil
	}
	if err != nil {
		return choose.Known{}, false, err
	}
	known, err := c.decided(ctx, namespace)
	known.Namespace = map[string]string{}
	for key, value := range ns.Annotations {
		if strings.HasPrefix(key, api.Domain+"/") {
			known.Namespace[key] = value
		}
	}
	return known, ns.Labels[api.LabelInject] == api.InjectEnabled, err
}

// decided reads the state by which the webhook decides.
func (c *Cluster) decided(ctx context.Context, namespace string) (choose.Known, error) {
	services, err := c.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return choose.Known{}, err
	}
	version, err := facts.PodCertificates(ctx, c.Client.Discovery().RESTClient())
	if err != nil {
		return choose.Known{}, err
	}
	known := choose.Known{NoPodKeys: version == ""}
	for i := range services.Items {
		known.Services = append(known.Services, &services.Items[i])
	}
	secret, err := c.Client.CoreV1().Secrets(namespace).Get(ctx, api.ConventionalSecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
	case err != nil:
		return choose.Known{}, err
	default:
		known.ConventionalSecret = api.IsConventional(secret.Name, secret.Type, secret.Labels)
	}
	return known, nil
}

// Missed returns the pods of opted-in namespaces that are not injected, but would be if
// they were created now: those from before the label or the Secret, or from a time
// without a running webhook; and those whose proxy differs from that of a new pod. The webhook gives
// identities of the trust domain to new pods, unless it is empty.
func (c *Cluster) Missed(ctx context.Context, namespace string, openShift bool, trustDomain string) ([]preview.Row, error) {
	namespaces, err := c.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: api.LabelInject + "=" + api.InjectEnabled})
	if err != nil {
		return nil, err
	}
	var rows []preview.Row
	for _, ns := range namespaces.Items {
		if namespace != "" && ns.Name != namespace || preview.Excluded(ns.Name) {
			continue
		}
		known, err := c.decided(ctx, ns.Name)
		if err != nil {
			return nil, err
		}
		pods, err := c.Client.CoreV1().Pods(ns.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		if openShift {
			for i, svc := range known.Services {
				known.Services[i] = api.Translate(svc)
			}
		}
		known.In, known.Namespace, known.TrustDomain = ns.Name, ns.Annotations, trustDomain
		var failed error
		known.Elsewhere = func(namespace, name string) *corev1.Service {
			if !slices.ContainsFunc(namespaces.Items, func(other corev1.Namespace) bool { return other.Name == namespace }) {
				return nil
			}
			svc, err := c.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				failed = cmp.Or(failed, ignoreNotFound(err))
				return nil
			}
			if openShift {
				svc = api.Translate(svc)
			}
			return svc
		}
		place := uninjected.Place{OptedIn: true, Services: known.Services, Conventional: known.ConventionalSecret}
		for i := range pods.Items {
			if row, ok := missedPod(&pods.Items[i], place); ok {
				rows = append(rows, row)
			} else if row, ok := driftedPod(&pods.Items[i], known); ok {
				rows = append(rows, row)
			}
		}
		if failed != nil {
			return nil, failed
		}
	}
	return rows, nil
}

// Outdated returns how proxies of pods of the Service's namespace connect to it otherwise than those of new pods would, each
// once and sorted, or that the user may not read that.
func (c *Cluster) Outdated(ctx context.Context, namespace, name string) ([]string, error) {
	known, optedIn, err := c.Known(ctx, namespace)
	var out []string
	if known.In = namespace; err == nil && optedIn {
		for i, svc := range known.Services { // without --openshift-compat, a Service of the status has none of its annotations
			known.Services[i] = api.Translate(svc)
		}
		err = pages.Each(ctx, c.Client.CoreV1().Pods(namespace), metav1.ListOptions{}, func(pod *corev1.Pod) {
			for _, d := range driftOf(pod, known) {
				of := pods.FactsOf(pod).Template.Value().Workload.String()
				if text := api.Escape(of + ": " + d.String()); d.Service == name+"."+namespace && !slices.Contains(out, text) {
					out = append(out, text)
				}
			}
		})
	}
	if apierrors.IsForbidden(err) {
		return []string{"it is not known which pods connect to it otherwise than new pods would: this user may not read them"}, nil
	}
	slices.Sort(out)
	return out, err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// driftOf is choose.Drift for a pod that runs.
func driftOf(pod *corev1.Pod, known choose.Known) []choose.Difference {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return choose.Drift(pod, known)
}

// driftedPod returns the row of a pod whose proxy differs from that of a new pod.
func driftedPod(pod *corev1.Pod, known choose.Known) (preview.Row, bool) {
	var what []string
	do := "recreate the pod"
	for _, d := range driftOf(pod, known) {
		what = append(what, d.String())
		if d.Kind == choose.LeftOut {
			do = "correct that before you recreate the pod"
		}
	}
	return preview.Row{
		Namespace: pod.Namespace, Workload: "Pod/" + pod.Name, Container: api.ProxyContainer, Secret: "-", Done: "outdated",
		Why: strings.Join(what, "; ") + ": " + do,
	}, len(what) > 0
}

// missedPod returns the row of a missed pod, as the rotator decides it.
func missedPod(pod *corev1.Pod, place uninjected.Place) (preview.Row, bool) {
	facts := pods.FactsOf(pod)
	verdict := uninjected.Evaluate(facts, place)
	row := preview.Row{
		Namespace: pod.Namespace, Workload: "Pod/" + pod.Name, Container: "-", Secret: verdict.Choice.Key.String(), Done: "missed",
		Why: "created before the namespace was labelled, before its Service or its Secret, or while the webhook was not running: recreate the pod",
	}
	if verdict.Reason == uninjected.ReasonMistake {
		row.Why = facts.Template.Value().Mistake
	}
	return row, verdict.Missed()
}
