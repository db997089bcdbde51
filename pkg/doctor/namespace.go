package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Namespace is a namespace and the objects in it.
type Namespace struct {
	Name string
	// Seen is true if the Namespace itself was read, with its Labels and Annotations, and
	// not only objects in it.
	Seen                bool
	Labels, Annotations map[string]string
	Services            []*corev1.Service
	Workloads           []Workload
	// Live is true in a cluster, where the signer reports invalid requests in conditions. For
	// manifests, it is false, and requests are checked here against Limits.
	Live bool
	// Limits are the signer's. They are used only if not Live.
	Limits api.Limits
	// Noted are the pods to which the webhook gave no certificate, one entry for all equal
	// pods of a workload.
	Noted []Noted
	// Missed counts, for each workload (KIND NAME), the pods that run without the certificate
	// that they would get now.
	Missed map[string]int
	// Drifted are, for each workload, the pods whose proxy differs from that of a new pod.
	Drifted map[string]Drifted

	now time.Time // of the API server; zero for manifests
}

// Drifted are pods of a workload whose proxy differs from that of a new pod.
type Drifted struct {
	Pods int
	// What has the differences, as choose.Drift returns them, each once.
	What []string
	// LeftOut: new pods would not connect to one of the Services, so that a restart does not help.
	LeftOut bool
}

// optedIn reports whether the namespace is opted in.
func (n Namespace) optedIn() bool { return n.Labels[api.LabelInject] == api.InjectEnabled }

// Findings returns the findings about the namespace and the objects in it.
func (n Namespace) Findings() []Finding {
	var out []Finding
	out = append(out, n.itself()...)
	for _, svc := range n.Services {
		out = append(out, n.service(svc)...)
	}
	if !n.Live {
		out = append(out, n.requests()...)
	}
	for _, w := range n.Workloads {
		out = append(out, n.workload(w)...)
	}
	return out
}

// itself returns the findings about the Namespace.
func (n Namespace) itself() []Finding {
	object := "Namespace " + n.Name
	var out []Finding
	if value, ok := n.Labels[api.LabelInject]; ok && value != api.InjectEnabled && value != api.InjectDisabled {
		f := found(InjectLabel, object, "label %s: %q: must be %q or %q", api.LabelInject, value, api.InjectEnabled, api.InjectDisabled)
		f.at = []any{"metadata", "labels", api.LabelInject}
		out = append(out, f.do("%s", api.LabelCommand(n.Name, "--overwrite")))
	}
	out = append(out, unknown(api.OnNamespace, object, n.Annotations)...)
	_, errs := api.ParseSettings(n.Annotations)
	for _, err := range errs {
		out = append(out, found(Value, object, "%v", err).field(err))
	}
	return out
}

// unknown returns a finding for each annotation that has no effect at the place.
func unknown(place api.Place, object string, annotations map[string]string) []Finding {
	var out []Finding
	kind, _, _ := strings.Cut(object, " ")
	if place == api.OnPod {
		kind = string(place)
	}
	for _, key := range place.Unknown(annotations) {
		known := place.Annotations()
		f := found(UnknownKey, object, "%s has no effect on %s", api.Shorten(key, maxKey), article(kind)).annotation(key)
		if len(known) > 0 {
			f.Message += ": must be one of " + strings.Join(known, ", ")
		}
		switch similar, places := Suggest(key, known), placesOf(key); {
		case len(places) > 0:
			f = f.do("Move it to a %s.", strings.Join(places, " or a "))
		case similar != "":
			f = f.do("Did you mean %s?", similar)
		}
		out = append(out, f)
	}
	return out
}

// article returns the noun with its article.
func article(noun string) string {
	if noun != "" && strings.ContainsRune("AEIOaeio", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// maxKey is the number of characters of a key that are shown.
const maxKey = 100

// placesOf returns the places where the key has an effect.
func placesOf(key string) []string {
	var places []string
	for _, p := range api.Places() {
		if slices.Contains(p.Annotations(), key) {
			places = append(places, string(p))
		}
	}
	return places
}

// service returns the findings about a Service.
func (n Namespace) service(svc *corev1.Service) []Finding {
	object := fmt.Sprintf("Service %s/%s", n.Name, svc.Name)
	out := unknown(api.OnService, object, svc.Annotations)
	_, errs := api.ParseSettings(svc.Annotations)
	for _, err := range errs {
		out = append(out, found(Value, object, "%v", err).field(err))
	}
	if _, err := api.ParseProbe(svc); err != nil {
		out = append(out, found(Value, object, "%v", err).field(err))
	}
	if _, _, err := api.Clients(svc); err != nil {
		out = append(out, found(Value, object, "%v", err).field(err))
	}
	out = append(out, n.ports(svc, object)...)
	if !api.Asks(svc) {
		return append(out, n.idle(svc, object)...)
	}
	if n.Seen && !n.optedIn() {
		f := found(NotLabelled, object, "it requests a certificate, but its namespace does not have label %s=%s", api.LabelInject, api.InjectEnabled)
		out = append(out, f.do("%s", api.LabelCommand(n.Name)))
	}
	switch {
	case len(svc.Spec.Selector) == 0:
		f := found(SelectsNothing, object, "it has no selector, so no pod is injected for it")
		f.at = []any{"spec"}
		out = append(out, f.do("Set spec.selector. Change nothing if its endpoints are managed in another way and use the Secret."))
	case n.selectsNothing(svc):
		f := found(SelectsNothing, object, "no pod has the labels of its selector: %s", metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: svc.Spec.Selector}))
		f.at = []any{"spec", "selector"}
		out = append(out, f)
	}
	if n.Live && n.optedIn() {
		out = append(out, n.conditions(svc, object)...)
	}
	return out
}

// idle returns the findings about a Service that requests no certificate.
func (n Namespace) idle(svc *corev1.Service, object string) []Finding {
	if _, err := api.KeySourceOf(svc); err != nil {
		return []Finding{found(Value, object, "%v", err).field(err)} // an invalid key source: it names no Secret either
	}
	var keys []string
	for _, key := range api.OnService.Annotations() {
		if _, ok := svc.Annotations[key]; ok {
			keys = append(keys, key)
		}
	}
	retained := api.Condition(svc, api.ConditionReady) != nil // the condition names the retained Secret
	if len(keys) == 0 || retained || svc.DeletionTimestamp != nil {
		return nil
	}
	return []Finding{found(AsksNothing, object, "%s: no effect without %s or %s: %s", strings.Join(keys, ", "), api.AnnotationSecretName, api.AnnotationKeySource, api.KeySourcePod).annotation(keys[0])}
}

// selectsNothing reports whether no workload has the labels that the Service selects. It is
// false for a Service without a selector, whose endpoints are managed in another way, and for
// manifests without workloads.
func (n Namespace) selectsNothing(svc *corev1.Service) bool {
	if !n.Live && len(n.Workloads) == 0 {
		return false
	}
	return len(svc.Spec.Selector) > 0 && !slices.ContainsFunc(n.Workloads, func(w Workload) bool { return n.selects(svc, w.Template.Labels) })
}

// selects reports whether the Service selects pods with these labels.
func (n Namespace) selects(svc *corev1.Service, labels map[string]string) bool {
	return api.Selects(svc, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Labels: labels}})
}

// requests returns the requests that the signer would refuse, alone or together with others
// for the same Secret.
func (n Namespace) requests() []Finding {
	var out []Finding
	bySecret := map[string][]*corev1.Service{}
	var secrets []string
	refuse := func(svc *corev1.Service, conflict error) {
		errs := api.Problems(svc, n.Limits)
		if len(errs) == 0 && conflict != nil {
			errs = []error{conflict}
		}
		for _, err := range errs {
			out = append(out, found(Value, fmt.Sprintf("Service %s/%s", n.Name, svc.Name), "%v", err).field(err))
		}
	}
	for _, svc := range n.Services {
		secret, ok := api.Wants(svc)
		switch {
		case !ok && api.WantsPodKeys(svc):
			refuse(svc, nil)
		case ok:
			if bySecret[secret] == nil {
				secrets = append(secrets, secret)
			}
			bySecret[secret] = append(bySecret[secret], svc)
		}
	}
	for _, secret := range secrets {
		_, members, _ := api.Merge(bySecret[secret], n.Limits)
		for _, m := range members {
			refuse(m.Service, m.Err)
		}
	}
	return out
}
