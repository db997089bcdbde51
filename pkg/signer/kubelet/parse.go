package kubelet

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// Asked are the names and addresses in a valid request, without duplicates.
type Asked struct {
	Names []string
	IPs   []netip.Addr
}

// Claims returns the names and addresses.
func (a Asked) Claims() []string {
	claims := slices.Clone(a.Names)
	for _, ip := range a.IPs {
		claims = append(claims, ip.String())
	}
	return claims
}

const (
	// MaxNames is the most names and addresses in a request.
	MaxNames = 32
	// minLifetime and maxLifetime bound spec.expirationSeconds. The API server has the lower
	// bound too, and kube-controller-manager an upper one of its own.
	minLifetime = 10 * time.Minute
	maxLifetime = 366 * 24 * time.Hour
)

// parse returns the names and addresses in the request, or why it is not valid for a kubelet.
func (r *Request) parse() (Asked, *Decision) {
	node, ok := r.NodeName()
	if !ok {
		return Asked{}, denied(reasonNotANode, "user %q is not a node: must be %q and the name of a Node, in group %q", shown(r.Username), userPrefix, nodesGroup)
	}
	request, _, refused := csr.Read(r.PEM)
	if refused != nil {
		return Asked{}, denied(refused.Reason, "%s", refused)
	}
	if err := checkSubject(request, userPrefix+node); err != nil {
		return Asked{}, denied(reasonSubject, "%s", err)
	}
	if !slices.ContainsFunc(allowedUsages, func(u []certificatesv1.KeyUsage) bool { return sameUsages(u, r.Usages) }) {
		return Asked{}, denied(reasonUsages, "spec.usages: %s: must be exactly %q or %q", shown(fmt.Sprintf("%q", r.Usages[:min(len(r.Usages), 8)])), allowedUsages[0], allowedUsages[1])
	}
	if r.Lifetime != 0 && (r.Lifetime < minLifetime || r.Lifetime > maxLifetime) {
		return Asked{}, denied(reasonInvalid, "spec.expirationSeconds: %d: must be between %d and %d", r.Lifetime/time.Second, minLifetime/time.Second, maxLifetime/time.Second)
	}
	return readNames(request)
}

var (
	oidCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

// checkSubject returns an error if the subject is not exactly that of the node.
func checkSubject(request *x509.CertificateRequest, username string) error {
	kinds := map[string]int{}
	for _, n := range request.Subject.Names {
		kinds[n.Type.String()]++
	}
	switch s := request.Subject; {
	case s.CommonName != username:
		return fmt.Errorf("spec.request: common name %q: must be %q, the user name of the requester", shown(s.CommonName), shown(username))
	case !slices.Equal(s.Organization, []string{nodesGroup}):
		return fmt.Errorf("spec.request: organization %s: must be only %q", shown(fmt.Sprintf("%q", s.Organization)), nodesGroup)
	case kinds[oidCommonName.String()] != 1 || kinds[oidOrganization.String()] != 1 || len(s.Names) != 2:
		return fmt.Errorf("spec.request: subject: %d attributes: must be one common name and one organization", len(s.Names))
	}
	return nil
}

// allowedUsages are those of signer kubernetes.io/kubelet-serving, without and with key encipherment.
var allowedUsages = [][]certificatesv1.KeyUsage{
	{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth},
}

func sameUsages(a, b []certificatesv1.KeyUsage) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(u certificatesv1.KeyUsage) bool { return !slices.Contains(b, u) })
}

// readNames returns the subject alternative names; csr.Read has refused those of other kinds.
func readNames(request *x509.CertificateRequest) (a Asked, _ *Decision) {
	switch n := len(request.DNSNames) + len(request.IPAddresses); {
	case n == 0:
		return a, denied(reasonName, "spec.request: no subjectAltName: must have at least one DNS name or IP address")
	case n > MaxNames:
		return a, denied(reasonName, "spec.request: %d names: must be at most %d", n, MaxNames)
	}
	for _, name := range request.DNSNames {
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			return a, denied(reasonName, "DNS name %q: %s", shown(name), strings.Join(errs, "; "))
		}
	}
	a.Names, a.IPs = slices.Clone(request.DNSNames), csr.Addresses(request)
	slices.Sort(a.Names)
	slices.SortFunc(a.IPs, netip.Addr.Compare)
	a.Names, a.IPs = slices.Compact(a.Names), slices.Compact(a.IPs)
	return a, nil
}

// shown returns a value shortened for a message.
func shown(value string) string { return api.Shorten(value, 80) }
