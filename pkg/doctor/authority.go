package doctor

import (
	"cmp"

	"github.com/servingcert/servingcert/pkg/api"
)

// State is what the signer and the rotator report of the CA and of who trusts it.
type State struct {
	CA api.CAStatus
	// TrustAccount is the ServiceAccount of the rotator that writes the bundle, NAMESPACE:NAME.
	TrustAccount string
	// Trust is nil if the rotator has written no status.
	Trust *api.TrustStatus
	// Unread: what the rotator reports could not be read.
	Unread bool
}

// WebhookBundle returns the bundle that the API server is to trust servingcert's webhook by, PEM. It has
// the root of an interim CA, too, while something that this signed may be in use: also for a day after the
// CA was restored.
func (s *State) WebhookBundle() string { return cmp.Or(s.CA.OwnBundle, s.CA.Bundle) }

// most is how many targets are named one by one.
const most = 10

func (s *State) judge() []Finding {
	var out []Finding
	if problem := s.CA.Problem; problem != (api.CAMessage{}) {
		out = append(out, found(CAProblem, "", "%s", problem))
	}
	for _, w := range s.CA.Warnings {
		out = append(out, found(CAWarning, "", "%s", w))
	}
	return append(out, s.trust()...)
}

// unnamed returns the finding about a webhook configuration that is annotated and that no role
// lets the rotator write, with the commands that make one; false for any other target.
func (s *State) unnamed(t api.TrustTarget) (Finding, bool) {
	resource := map[string]string{
		"MutatingWebhookConfiguration": "mutatingwebhookconfigurations", "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	}[t.Kind]
	if resource == "" || t.Reason != "Forbidden" || t.Name == api.TrustAllOfKind {
		return Finding{}, false
	}
	f := found(WebhookRole, t.Kind+" "+t.Name, "%s", t.Message)
	role := "servingcert-trust-" + t.Name
	names := []string{t.Name}
	return f.do("Apply the ClusterRole: %s && %s",
		api.CommandText(names, "kubectl", "create", "clusterrole", role, "--verb=patch", "--resource="+resource+".admissionregistration.k8s.io", "--resource-name="+t.Name),
		api.CommandText(names, "kubectl", "create", "clusterrolebinding", role, "--clusterrole="+role, "--serviceaccount="+s.TrustAccount)), true
}

// trust returns what keeps targets from the bundle.
func (s *State) trust() []Finding {
	switch {
	case s.Unread:
		return nil
	case s.Trust == nil:
		return []Finding{found(TrustTargets, "", "there is no ConfigMap %s: the rotator has not run yet", api.TrustStatusName)}
	case s.Trust.Problem != "":
		return []Finding{found(TrustTargets, "", "%s", s.Trust.Problem)}
	case s.Trust.BundleHash != s.CA.BundleHash:
		return []Finding{found(TrustTargets, "", "the rotator reports of another bundle than the signer has published")}
	}
	var out []Finding
	for i, t := range s.Trust.NotHolding {
		if i == most {
			break
		}
		if f, ok := s.unnamed(t); ok {
			out = append(out, f)
			continue
		}
		out = append(out, found(TrustTargets, "", "%s", t))
	}
	if n := s.Trust.Pending + s.Trust.Refusing - len(out); n > 0 {
		out = append(out, found(TrustTargets, "", "%d more targets do not hold the bundle", n))
	}
	return out
}
