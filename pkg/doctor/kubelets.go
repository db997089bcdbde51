package doctor

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/servingcert/servingcert/pkg/pki"
)

// ApprovesKubelets reports whether the signer was told to approve the serving certificates of
// kubelets.
func (i *Installation) ApprovesKubelets() bool {
	d := i.Deployments[namePrefix+"signer"]
	if d == nil || len(d.Spec.Template.Spec.Containers) == 0 {
		return false
	}
	given := false
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "approve-kubelet-serving" {
			on, err := strconv.ParseBool(value)
			given = value == "" || err != nil || on
		}
	}
	return given
}

// nodeUser is what the API server calls the kubelet of a node, before the node's name.
const nodeUser = "system:node:"

// answerTime is how long an answer to a request may take.
const answerTime = time.Minute

// kubelets judges the newest request of each node for its serving certificate, and what its kubelet serves, if
// it was dialled. Of a node whose request was answered more than an hour ago there is none: Kubernetes deletes
// them.
func (i *Installation) kubelets(now time.Time) []Finding {
	newest := map[string]*certificatesv1.CertificateSigningRequest{}
	for j := range i.KubeletRequests {
		o := &i.KubeletRequests[j]
		node, ok := strings.CutPrefix(o.Spec.Username, nodeUser)
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
	for _, k := range i.Kubelets {
		if why := k.wrong(issuedTo(newest[k.Node]), now); why != "" {
			out = append(out, found(KubeletServing, "Node "+k.Node, "%s", why))
		}
	}
	return out
}

// Kubelet is what the kubelet of a node answered when it was dialled.
type Kubelet struct {
	Node    string
	Address netip.Addr
	Leaf    *x509.Certificate // nil if there was none
	Problem string            // why there was none
}

const (
	// takeUp is how long after a certificate was issued the kubelet may serve the one before.
	takeUp = 2 * time.Minute
	// renewedAfter is the part of a lifetime, in percent, after which a certificate has been renewed: kubelets
	// begin at 70 to 90.
	renewedAfter = 95
)

// issuedTo returns the certificate that answers the request, nil if there is none.
func issuedTo(o *certificatesv1.CertificateSigningRequest) *x509.Certificate {
	if o == nil {
		return nil
	}
	chain, err := pki.ParseCertificates(o.Status.Certificate)
	if err != nil {
		return nil
	}
	return chain[0]
}

// wrong returns what is wrong with the certificate that the kubelet serves, or "". No chain is verified: which
// CA kube-controller-manager signs with is not known here. issued is what the node was given last, or nil.
func (k Kubelet) wrong(issued *x509.Certificate, now time.Time) string {
	if k.Leaf == nil {
		return "its kubelet serves no certificate: " + k.Problem
	}
	shown := fmt.Sprintf("its kubelet serves certificate sha256:%.8s, valid until %s", pki.Fingerprint(k.Leaf), k.Leaf.NotAfter.UTC().Format(time.RFC3339))
	switch life := k.Leaf.NotAfter.Sub(k.Leaf.NotBefore); {
	case now.Before(k.Leaf.NotBefore) || now.After(k.Leaf.NotAfter):
		return shown + ", which is not valid now"
	case k.Leaf.Subject.CommonName != nodeUser+k.Node || k.Leaf.Subject.String() == k.Leaf.Issuer.String():
		return shown + ", which was not issued to the node: is serverTLSBootstrap on, and was its request approved?"
	case k.Leaf.VerifyHostname(k.Address.String()) != nil:
		return fmt.Sprintf("%s, which is not for its address %s", shown, k.Address)
	case issued != nil && !issued.Equal(k.Leaf) && issued.NotBefore.After(k.Leaf.NotBefore) && now.Sub(issued.NotBefore) > backdated+takeUp:
		return fmt.Sprintf("%s, and was issued sha256:%.8s: restart the kubelet", shown, pki.Fingerprint(issued))
	case now.Sub(k.Leaf.NotBefore) > life/100*renewedAfter:
		return shown + ", which it should have renewed: look at its requests and its log"
	}
	return ""
}

// backdated is how long before it was signed a certificate of kube-controller-manager begins
// (kubernetes/kubernetes, pkg/controller/certificates/authority).
const backdated = 5 * time.Minute

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
