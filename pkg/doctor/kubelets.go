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

// ApprovesKubelets reports whether the signer has flag --approve-kubelet-serving.
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

// NoKubelets returns why no kubelet is examined, or "".
func (i *Installation) NoKubelets() string {
	switch {
	case i.ApprovesKubelets():
		return ""
	case i.Deployments == nil:
		return "the Deployments could not be read, so it is unknown whether the signer has --approve-kubelet-serving"
	}
	return "the signer does not have --approve-kubelet-serving"
}

// nodeUser begins the user name of a kubelet; the node's name follows.
const nodeUser = "system:node:"

// answerTime is the time after which a request without an answer is a finding.
const answerTime = time.Minute

// kubelets returns the findings about each node's newest request for a serving certificate, and about the
// certificate that its kubelet serves, if it was dialled. Kubernetes deletes a request an hour after its answer.
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
		if why := k.leafProblem(issuedTo(newest[k.Node]), now); why != "" {
			out = append(out, found(KubeletServing, "Node "+k.Node, "%s", why))
		}
	}
	return out
}

// Kubelet is the result of dialling the kubelet of a node.
type Kubelet struct {
	Node    string
	Address netip.Addr
	Leaf    *x509.Certificate // nil if no certificate was served
	Problem string            // why none was served
}

const (
	// reloadTime is how long the kubelet may serve the previous certificate after a new one was issued.
	reloadTime = 2 * time.Minute
	// renewedAfter is the percentage of the lifetime after which a certificate must have been renewed: kubelets
	// begin at 70 to 90.
	renewedAfter = 95
)

// issuedTo returns the certificate issued for the request, or nil.
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

// leafProblem returns what is wrong with the certificate that the kubelet serves, or "". No chain is verified, because
// the CA of kube-controller-manager is unknown here. issued is the node's newest certificate, or nil.
func (k Kubelet) leafProblem(issued *x509.Certificate, now time.Time) string {
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
		return fmt.Sprintf("%s, which is not valid for its address %s", shown, k.Address)
	case issued != nil && !issued.Equal(k.Leaf) && issued.NotBefore.After(k.Leaf.NotBefore) && now.Sub(issued.NotBefore) > backdated+reloadTime:
		return fmt.Sprintf("%s, but the newest issued one is sha256:%.8s: restart the kubelet", shown, pki.Fingerprint(issued))
	case now.Sub(k.Leaf.NotBefore) > life/100*renewedAfter:
		return shown + ", which it should have renewed: check its requests and its log"
	}
	return ""
}

// backdated is how long before its signing a certificate of kube-controller-manager is valid
// (kubernetes/kubernetes, pkg/controller/certificates/authority).
const backdated = 5 * time.Minute

// unanswered returns why no certificate was issued for the request, or "".
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
		return "was approved, but kube-controller-manager has not signed it: it was created " + age.String() + " ago"
	}
	return "has been pending for " + age.String() + ": an event on it, in namespace default, names the cause"
}
