package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Namespace is what is known of a namespace and of what is in it.
type Namespace struct {
	Name string
	// Seen is true if the Namespace itself was read, and not only objects in it. Labels
	// and Annotations are its.
	Seen                bool
	Labels, Annotations map[string]string
	Services            []*corev1.Service
	Workloads           []Workload
	// Live: this is a cluster, where the signer and the rotator report what they think in
	// conditions. If not, values are judged here, by Limits.
	Live bool
	// Limits are the signer's. They count only if not Live.
	Limits api.Limits
	// Noted are the pods to which the webhook gave no certificate, one entry for those of a
	// workload that are alike.
	Noted []Noted
	// Missed are the workloads whose pods run without the certificate that they would get
	// now, as KIND NAME, and how many such pods there are.
	Missed map[string]int
}

// optedIn reports whether the namespace is opted in.
func (n Namespace) optedIn() bool { return n.Labels[api.LabelInject] == api.InjectEnabled }

// Judge returns what is found in the namespace.
func (n Namespace) Judge() []Finding {
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

// itself returns what is wrong with the Namespace.
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

// unknown returns a finding for each annotation that means nothing at the place.
func unknown(place api.Place, object string, annotations map[string]string) []Finding {
	var out []Finding
	kind, _, _ := strings.Cut(object, " ")
	if place == api.OnPod {
		kind = string(place)
	}
	for _, key := range place.Unknown(annotations) {
		known := place.Annotations()
		f := found(UnknownKey, object, "%s means nothing on %s", api.Shorten(key, maxKey), article(kind)).annotation(key)
		if len(known) > 0 {
			f.Message += ": must be one of " + strings.Join(known, ", ")
		}
		switch meant, elsewhere := Suggest(key, known), placesOf(key); {
		case len(elsewhere) > 0:
			f = f.do("Move it: it has a meaning on a %s.", strings.Join(elsewhere, ", a "))
		case meant != "":
			f = f.do("Did you mean %s?", meant)
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

// maxKey is how many characters of a key are shown.
const maxKey = 100

// placesOf returns where the key has a meaning.
func placesOf(key string) []string {
	var places []string
	for _, p := range api.Places() {
		if slices.Contains(p.Annotations(), key) {
			places = append(places, string(p))
		}
	}
	return places
}

// service returns what is wrong with a Service by itself.
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
	out = append(out, n.ports(svc, object)...)
	if !api.Asks(svc) {
		return append(out, n.idle(svc, object)...)
	}
	if n.Seen && !n.optedIn() {
		f := found(NotLabelled, object, "it asks for a certificate, and its namespace has no label %s=%s", api.LabelInject, api.InjectEnabled)
		out = append(out, f.do("%s", api.LabelCommand(n.Name)))
	}
	switch {
	case len(svc.Spec.Selector) == 0:
		f := found(SelectsNothing, object, "it has no selector, so that no pod is injected for it")
		f.at = []any{"spec"}
		out = append(out, f.do("Set spec.selector. If its endpoints are made by something else, nothing is wrong where they use the Secret."))
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

// idle returns what is wrong with a Service that asks for no certificate.
func (n Namespace) idle(svc *corev1.Service, object string) []Finding {
	if _, err := api.KeySourceOf(svc); err != nil {
		return []Finding{found(Value, object, "%v", err).field(err)} // it names no Secret either
	}
	var keys []string
	for _, key := range api.OnService.Annotations() {
		if _, ok := svc.Annotations[key]; ok {
			keys = append(keys, key)
		}
	}
	retained := api.Condition(svc, api.ConditionReady) != nil // the signer says what is kept
	if len(keys) == 0 || retained || svc.DeletionTimestamp != nil {
		return nil
	}
	return []Finding{found(AsksNothing, object, "%s: no effect without %s or %s: %s", strings.Join(keys, ", "), api.AnnotationSecretName, api.AnnotationKeySource, api.KeySourcePod).annotation(keys[0])}
}

// selectsNothing reports whether no workload has the labels that the Service selects. A
// Service without a selector gets its endpoints from somebody else, and manifests without
// workloads are those of Services alone.
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

// requests returns what the signer would refuse, and why: a Service by itself, and beside
// the others that ask for the same Secret.
func (n Namespace) requests() []Finding {
	var out []Finding
	bySecret := map[string][]*corev1.Service{}
	var secrets []string
	refuse := func(svc *corev1.Service, beside error) {
		errs := api.Problems(svc, n.Limits)
		if len(errs) == 0 && beside != nil {
			errs = []error{beside}
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
