package doctor

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// ApprovesKubelets reports whether the signer was told to approve the serving certificates of
// kubelets.
func (i *Installation) ApprovesKubelets() bool {
	d := i.Deployments[namePrefix+"signer"]
	if d == nil {
		return false
	}
	value, given := flagsOf(d)["approve-kubelet-serving"]
	on, err := strconv.ParseBool(value)
	return given && (value == "" || err != nil || on)
}

// answerTime is how long an answer to a request may take.
const answerTime = time.Minute

// kubelets judges the newest request of each node for its serving certificate, and what the rotator saw its
// kubelet serve. Of a node whose request was answered more than an hour ago there is none: Kubernetes deletes
// them.
func (i *Installation) kubelets(now time.Time) []Finding {
	newest := map[string]*certificatesv1.CertificateSigningRequest{}
	for j := range i.KubeletRequests {
		o := &i.KubeletRequests[j]
		node, ok := strings.CutPrefix(o.Spec.Username, "system:node:")
		if last := newest[node]; ok && (last == nil || last.CreationTimestamp.Before(&o.CreationTimestamp)) {
			newest[node] = o
		}
	}
	var out []Finding
	for _, node := range slices.Sorted(maps.Keys(newest)) {
		if why := unanswered(newest[node], now); why != "" {
			out = append(out, found(KubeletServing, "Node "+node, "its CertificateSigningRequest %s %s", newest[node].Name, why))
		}
	}
	if i.Kubelets.Stale(now) {
		return out
	}
	for _, k := range i.Kubelets.Kubelets {
		out = append(out, found(KubeletServing, "Node "+k.Node, "%s, since %s", k.Message, k.Since.UTC().Format(time.RFC3339)))
	}
	if more := i.Kubelets.Count - len(i.Kubelets.Kubelets); more > 0 {
		out = append(out, found(KubeletServing, "", "%d more nodes do not serve the certificates that they were issued", more))
	}
	return out
}

// unanswered returns why the request led to no certificate, or "".
func unanswered(o *certificatesv1.CertificateSigningRequest, now time.Time) string {
	if len(o.Status.Certificate) > 0 {
		return ""
	}
	approved := false
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return "was denied: " + c.Reason + ": " + c.Message
		case certificatesv1.CertificateFailed:
			return "has failed: " + c.Reason + ": " + c.Message
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	age := now.Sub(o.CreationTimestamp.Time).Truncate(time.Second)
	switch {
	case age < answerTime:
		return ""
	case approved:
		return "was approved, and kube-controller-manager has not signed it: it was made " + age.String() + " ago"
	}
	return "has waited for " + age.String() + ": an event on it, in namespace default, says for what"
}
