package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Service is a Service that has or requests a certificate, in the form of -o json. Its
// texts are escaped (api.Escape).
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Secret    string `json:"secret,omitempty"`
	// Ready is the condition's status: True, False or Unknown; "" without a condition.
	Ready   string `json:"ready,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Leaf    string `json:"leaf,omitempty"` // SHA-256 of its DER, in hex
	// Serving is nil if the rotator has written no condition yet.
	Serving *Serving `json:"serving,omitempty"`
	// Guarded is nil if the Service lists no clients.
	Guarded *Guarded `json:"guarded,omitempty"`
	// NotBefore, NotAfter and RenewAt are nil if the user may not read the Secret, and RenewAt if
	// another issuer renews it.
	NotBefore *time.Time `json:"notBefore,omitempty"`
	NotAfter  *time.Time `json:"notAfter,omitempty"`
	RenewAt   *time.Time `json:"renewAt,omitempty"`

	// NotOptedIn: it has no condition, because its namespace is not labelled.
	NotOptedIn bool `json:"notOptedIn,omitempty"`
	// PodKeys: its pods have their own keys (servingcert.dev/key-source: pod).
	PodKeys bool `json:"podKeys,omitempty"`
	// External is true if another issuer writes the Secret.
	External bool `json:"external,omitempty"`
	// StillOurs: it is External, and servingcert still renews the certificate in the Secret.
	StillOurs bool `json:"-"`
	// Proxy lists the targetPorts at which the proxy in its pods, not the program, serves TLS.
	Proxy []string `json:"proxy,omitempty"`
	// Outdated is how pods of its namespace connect to it otherwise than new pods would; only for one Service.
	Outdated []string `json:"outdated,omitempty"`

	kept     []string // Secrets from before its pods had their own keys
	podsFail string   // condition PodsHealthy, if it is False
	retained string   // the Secret that is kept although the Service no longer requests it
}

// Followed reports whether another issuer renews the certificate. Until it has written the Secret,
// servingcert renews the one that is there.
func (s Service) Followed() bool { return s.External && !s.StillOurs }

// Key returns the key that its pods serve with: the key in the requested or retained
// Secret, pods.PodKey or pods.OtherPodKey.
func (s Service) Key() pods.Key {
	switch {
	case s.PodKeys && s.External:
		return pods.OtherPodKey
	case s.PodKeys:
		return pods.PodKey
	}
	return pods.SecretKey(cmp.Or(s.Secret, s.retained))
}

// Keys returns Key, and the keys in Secrets from before the pods had their own keys.
func (s Service) Keys() []pods.Key {
	var keys []pods.Key
	for _, secret := range s.kept {
		keys = append(keys, pods.SecretKey(secret))
	}
	return append(keys, s.Key())
}

// SecretColumn returns the text of a table: the requested Secret, or the key of the pods.
func (s Service) SecretColumn() string {
	if s.PodKeys {
		return s.Key().String()
	}
	return s.Secret
}

// ReasonColumn returns the text of a table: the reason of the condition, or why it is missing.
func (s Service) ReasonColumn() string {
	if s.NotOptedIn {
		return "NotOptedIn"
	}
	return s.Reason
}

// ByProxy returns the ports at which TLS is requested from the proxy; "" without any. Condition Serving reports
// whether it is served.
func (s Service) ByProxy() string {
	switch len(s.Proxy) {
	case 0:
		return ""
	case 1:
		return "TLS is requested from the proxy in its pods, at targetPort " + s.Proxy[0]
	}
	return "TLS is requested from the proxy in its pods, at targetPorts " + strings.Join(s.Proxy, ", ")
}

// PodsFail returns condition PodsHealthy as text if it is False; "" otherwise.
func (s Service) PodsFail() string { return s.podsFail }

// OldConnections returns Outdated as text, and what to do; "" without any.
func (s Service) OldConnections() string {
	if len(s.Outdated) == 0 {
		return ""
	}
	return "Pods that connect to its ports from before; restart them if the Service is as it should be: " + api.ListedTexts(s.Outdated, 5)
}

// servesNothing reports whether the Secret is kept although the Service no longer requests it, and the rotator reports
// nothing about it: its pods serve no certificate of the Secret.
func (s Service) servesNothing() bool { return s.retained != "" && s.Serving == nil }

// Refused reports whether the Service gets no certificate because its namespace is not labelled. Its
// Secret may hold an older certificate, from a distrusted CA or with other names.
func (s Service) Refused() bool { return s.Reason == api.ReasonNotOptedIn }

// NotOptedIn returns a line for each namespace that must be labelled before its Services
// get certificates; "" without any.
func NotOptedIn(services []Service) string {
	var lines []string
	for _, s := range services {
		line := optIn(s.Namespace)
		if s.NotOptedIn && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func optIn(namespace string) string {
	return fmt.Sprintf("Namespace %s is not labelled, so nothing is issued in it. To opt in: %s", namespace, api.LabelCommand(namespace))
}

// ServiceOf reads a Service; ok is false if it neither has nor requests a certificate.
func ServiceOf(svc *corev1.Service) (s Service, ok bool) {
	s = Service{Namespace: svc.Namespace, Name: svc.Name, Secret: api.Escape(secretOf(svc)), Serving: servingOf(svc), Guarded: guardedOf(svc), PodKeys: api.WantsPodKeys(svc), External: api.IsExternal(svc), Proxy: api.ProxyTargets(svc)}
	if s.PodKeys {
		s.kept = state.ReadyOf(svc).Kept
	}
	if c := api.Condition(svc, api.ConditionPodsHealthy); c != nil && c.Status == metav1.ConditionFalse {
		s.podsFail = api.Escape(fmt.Sprintf("condition %s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	ready := api.Condition(svc, api.ConditionReady)
	if ready == nil {
		return s, s.Secret != "" || s.PodKeys
	}
	s.Ready, s.Reason, s.Message = api.Escape(string(ready.Status)), api.Escape(ready.Reason), api.Escape(ready.Message)
	s.Leaf, _ = state.LeafOf(svc)
	s.StillOurs = s.External && !state.ReadyOf(svc).External
	if s.Secret == "" {
		s.retained, _ = state.PartIn(svc)
	}
	return s, s.Secret != "" || s.Leaf != "" || s.PodKeys
}

// secretOf returns the Secret that a Service requests; "" if it requests none.
// OpenShift's annotations count only if the signer runs with --openshift-compat,
// which the condition shows.
func secretOf(svc *corev1.Service) string {
	if name, ok := api.Wants(svc); ok || api.WantsPodKeys(svc) {
		return name
	}
	if api.Condition(svc, api.ConditionReady) == nil {
		return ""
	}
	for _, key := range []string{api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha} {
		if name := svc.Annotations[key]; name != "" {
			return name
		}
	}
	return ""
}

// String returns NAMESPACE/NAME.
func (s Service) String() string { return s.Namespace + "/" + s.Name }

// isAbout reports whether condition Serving has the reason, and is about the current leaf.
func (s Service) isAbout(reason string) bool {
	return s.Serving != nil && s.Serving.Leaf == s.Leaf && s.Serving.Reason == reason
}
