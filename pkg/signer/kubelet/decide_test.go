package kubelet

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/test/signertest"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	return key
}

// asks is the PKCS #10 request of kubelet worker-1, changed.
func asks(t testing.TB, key crypto.Signer, change ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	ordinary := func(r *x509.CertificateRequest) {
		r.Subject = pkix.Name{CommonName: "system:node:worker-1", Organization: []string{"system:nodes"}}
		r.DNSNames = []string{"worker-1", "worker-1.nodes.example.com"}
		r.IPAddresses = []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")}
	}
	return issue.EncodeCSR(signertest.CSR(t, key, append([]func(*x509.CertificateRequest){ordinary}, change...)...))
}

// objectOf is the request of kubelet worker-1 as the API server has it.
func objectOf(data []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "1", CreationTimestamp: metav1.NewTime(now)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: SignerName, Request: data, Username: "system:node:worker-1", Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}

func nodeOf(name string, addresses ...string) *Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addresses {
		kind, address, _ := strings.Cut(a, "=")
		o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	return NodeOf(o)
}

// right is a situation in which the request is approved.
func right(t testing.TB) Situation {
	t.Helper()
	allowed, err := ParseAllowed([]string{"10.0.0.0/24", "fd00::/64"}, []string{"nodes.example.com"}, "cluster.local")
	require.NoError(t, err)
	return Situation{
		Now: now.Add(time.Second), Request: RequestOf(objectOf(asks(t, newKey(t)))), Allowed: allowed,
		Node: nodeOf("worker-1", "Hostname=worker-1", "InternalIP=10.0.0.1", "ExternalIP=fd00::1", "InternalDNS=Worker-1.nodes.example.com"),
	}
}

func TestARightRequestIsApproved(t *testing.T) {
	s := right(t)
	d := Decide(s)
	require.Equal(t, Approve, d.Verdict, d.Message)
	assert.Equal(t, ratelimit.RequestName(TenantOf("worker-1"), "1"), d.Share.Request)
	assert.Equal(t, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodeAddresses",
		Message: "its Node reports all requested names and addresses, and the signer's flags allow them",
	}, Approval(d))

	s.Request.Usages = append(s.Request.Usages, certificatesv1.UsageKeyEncipherment)
	s.Request.Lifetime = 10 * time.Minute
	assert.Equal(t, Approve, Decide(s).Verdict, "with key encipherment, and for ten minutes")
	s.Request.Lifetime = 366 * 24 * time.Hour
	assert.Equal(t, Approve, Decide(s).Verdict, "for a year")
	s.Others = map[string][]string{"worker-1": {"worker-2"}}
	assert.Equal(t, Approve, Decide(s).Verdict, "its own name is its own, whoever reports it")
	s.Request.PEM = asks(t, newKey(t), func(r *x509.CertificateRequest) {
		for len(r.DNSNames)+len(r.IPAddresses) < MaxNames {
			r.DNSNames = append(r.DNSNames, fmt.Sprintf("n%d.nodes.example.com", len(r.DNSNames)))
		}
		s.Node.Names = append(s.Node.Names, r.DNSNames...)
	})
	assert.Equal(t, Approve, Decide(s).Verdict, "with as many names as are allowed")
}

// What a stolen node might ask for, and what no kubelet asks for.
func TestWrongRequestsAreDenied(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it is refused
	require.NoError(t, err)
	type change = func(*x509.CertificateRequest)
	extension := func(oid asn1.ObjectIdentifier, value any) change {
		der, err := asn1.Marshal(value)
		require.NoError(t, err)
		return func(r *x509.CertificateRequest) { r.ExtraExtensions = []pkix.Extension{{Id: oid, Value: der}} }
	}
	with := func(c change) func(*Situation) {
		return func(s *Situation) { s.Request.PEM = asks(t, newKey(t), c) }
	}
	for name, c := range map[string]struct {
		change         func(*Situation)
		reason, saying string
	}{
		"the name of another node": {with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:worker-2" }), "InvalidSubject", `"system:node:worker-2": must be "system:node:worker-1"`},
		"a name that is no node's": {with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "admin" }), "InvalidSubject", `must be "system:node:worker-1"`},
		"another organization":     {with(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), "InvalidSubject", `must be only "system:nodes"`},
		"one organization more":    {with(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }), "InvalidSubject", `must be only "system:nodes"`},
		"no organization":          {with(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), "InvalidSubject", "must be"},
		"a unit beside it":         {with(func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} }), "InvalidSubject", "3 attributes"},
		"the address of another node": {func(s *Situation) {
			s.Node.IPs = s.Node.IPs[1:]
			s.Others = map[string][]string{"10.0.0.1": {"worker-2"}}
		}, "AddressOfAnotherNode", `10.0.0.1: Node "worker-1" does not report it, and it belongs to Node "worker-2"`},
		"the DNS name of another node": {func(s *Situation) {
			s.Node.Names = nil
			s.Others = map[string][]string{"worker-1.nodes.example.com": {"worker-2"}}
		}, "AddressOfAnotherNode", "worker-2"},
		"the bare name of another node":         {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"worker-2"} }), "NameNotPermitted", `only "worker-1" is allowed`},
		"localhost":                             {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"localhost"} }), "NameNotPermitted", "a reserved name"},
		"a wildcard":                            {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"*.nodes.example.com"} }), "InvalidName", `DNS name "*.nodes.example.com"`},
		"a name in capitals":                    {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"Worker-1"} }), "InvalidName", "lower case"},
		"a Service's name that is reported":     {reportedName("web.shop.svc.cluster.local"), "NameNotPermitted", "below none of --node-dns-suffixes"},
		"outside of the suffixes, but reported": {reportedName("worker-1.example.com"), "NameNotPermitted", "below none of --node-dns-suffixes"},
		"the suffix itself":                     {reportedName("nodes.example.com"), "NameNotPermitted", "below none"},
		"outside of the CIDRs, but reported":    {reportedIP("10.0.1.1"), "NameNotPermitted", "IP address 10.0.1.1: is in none of --node-cidrs"},
		"the API server's address":              {reportedIP("10.96.0.1"), "NameNotPermitted", "in none of --node-cidrs"},
		"loopback":                              {reportedIP("127.0.0.1"), "NameNotPermitted", "not a global unicast address"},
		"a metadata service":                    {reportedIP("169.254.169.254"), "NameNotPermitted", "not a global unicast address"},
		"a URI":                                 {with(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "InvalidRequest", "uniformResourceIdentifier"},
		"an email address":                      {with(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} }), "InvalidRequest", "rfc822Name"},
		"no name":                               {with(func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = nil, nil }), "InvalidName", "no subjectAltName"},
		"33 names": {with(func(r *x509.CertificateRequest) {
			for i := len(r.DNSNames) + len(r.IPAddresses); i <= MaxNames; i++ {
				r.DNSNames = append(r.DNSNames, fmt.Sprintf("n%d.nodes.example.com", i))
			}
		}), "InvalidName", "33 names: must be at most 32"},
		"CA:true":                {with(extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ CA bool }{true})), "InvalidRequest", "extension 2.5.29.19"},
		"an extension":           {with(extension(asn1.ObjectIdentifier{1, 2, 3}, "x")), "InvalidRequest", "extension 1.2.3"},
		"a weak key":             {func(s *Situation) { s.Request.PEM = asks(t, weak) }, "UnsupportedKeyType", "unsupported key type or size"},
		"a signature by another": {func(s *Situation) { s.Request.PEM = forged(t) }, "InvalidRequest", "not signed with its own key"},
		"no request":             {func(s *Situation) { s.Request.PEM = []byte("x") }, "InvalidRequest", "must be one PEM block"},
		"a ServiceAccount": {func(s *Situation) {
			s.Request.Username, s.Request.Groups = "system:serviceaccount:kube-system:x", []string{"system:serviceaccounts"}
		}, "NotANode", `user "system:serviceaccount:kube-system:x" is not a node`},
		"a node's name outside of the group": {func(s *Situation) { s.Request.Groups = []string{"system:authenticated"} }, "NotANode", "is not a node"},
		"another node for it":                {func(s *Situation) { s.Request.Username = "system:node:worker-2" }, "InvalidSubject", `must be "system:node:worker-2"`},
		"a nameless node":                    {func(s *Situation) { s.Request.Username = "system:node:" }, "NotANode", "is not a node"},
		"client auth":                        {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth), "InvalidUsages", "must be exactly"},
		"client auth in place":               {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth), "InvalidUsages", `["digital signature" "client auth"]`},
		"a usage twice":                      {usages(certificatesv1.UsageServerAuth, certificatesv1.UsageServerAuth), "InvalidUsages", "must be exactly"},
		"no usage":                           {usages(), "InvalidUsages", "must be exactly"},
		"for nine minutes":                   {func(s *Situation) { s.Request.Lifetime = 9 * time.Minute }, "InvalidRequest", "spec.expirationSeconds: 540: must be between 600 and 31622400"},
		"for ten years":                      {func(s *Situation) { s.Request.Lifetime = 10 * 366 * 24 * time.Hour }, "InvalidRequest", "spec.expirationSeconds"},
		"of 15 minutes ago":                  {func(s *Situation) { s.Now = now.Add(MaxAge) }, "RequestTooOld", "created at 2026-11-01T12:00:00Z, more than 15m0s ago"},
		"of 15 minutes ago, without a Node":  {func(s *Situation) { s.Now, s.Node = now.Add(MaxAge), nil }, "RequestTooOld", `it waited because Node "worker-1" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			s := right(t)
			c.change(&s)
			d := Decide(s)
			assert.Equal(t, Deny, d.Verdict)
			assert.Equal(t, c.reason, d.Reason)
			assert.Contains(t, d.Message, c.saying)
			assert.Zero(t, d.NextAt)
			assert.Equal(t, certificatesv1.CertificateDenied, Approval(d).Type)
		})
	}
}

func usages(u ...certificatesv1.KeyUsage) func(*Situation) {
	return func(s *Situation) { s.Request.Usages = u }
}

// reportedName has the Node report a name, and ask for it.
func reportedName(name string) func(*Situation) {
	return func(s *Situation) {
		s.Node.Names = append(s.Node.Names, name)
		s.Request.PEM = requestFor(func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, name) })
	}
}

// reportedIP has the Node report an address, and ask for it.
func reportedIP(ip string) func(*Situation) {
	return func(s *Situation) {
		s.Node.IPs = append(s.Node.IPs, nodeOf("x", "InternalIP="+ip).IPs...)
		s.Request.PEM = requestFor(func(r *x509.CertificateRequest) { r.IPAddresses = append(r.IPAddresses, net.ParseIP(ip)) })
	}
}

func requestFor(change func(*x509.CertificateRequest)) []byte {
	key, _ := pki.GenerateKey(pki.ECDSAP256)
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:worker-1", Organization: []string{"system:nodes"}}}
	change(template)
	der, _ := x509.CreateCertificateRequest(rand.Reader, template, key)
	return issue.EncodeCSR(der)
}

// forged is a request whose last byte, of the signature, was changed.
func forged(t *testing.T) []byte {
	t.Helper()
	block, _ := pem.Decode(asks(t, newKey(t)))
	block.Bytes[len(block.Bytes)-1] ^= 1
	return issue.EncodeCSR(block.Bytes)
}

// What may become right waits, and is approved once it is.
func TestWhatIsNotYetTrueWaits(t *testing.T) {
	deleted := metav1.NewTime(now)
	for name, c := range map[string]struct {
		change         func(*Situation)
		reason, saying string
		next           time.Time
	}{
		"no Node":                 {func(s *Situation) { s.Node = nil }, "NodeNotFound", `Node "worker-1" does not exist`, now.Add(MaxAge)},
		"a Node that is deleted":  {func(s *Situation) { s.Node.DeletionTimestamp = &deleted }, "NodeNotFound", "is being deleted", now.Add(MaxAge)},
		"no address":              {func(s *Situation) { s.Node.IPs = nil }, "AddressNotReported", `does not report ["10.0.0.1" "fd00::1"]`, now.Add(MaxAge)},
		"no DNS name":             {func(s *Situation) { s.Node.Names = []string{"worker-1"} }, "AddressNotReported", `"worker-1.nodes.example.com"`, now.Add(MaxAge)},
		"not even its own name":   {func(s *Situation) { s.Node.Names = s.Node.Names[1:] }, "AddressNotReported", `["worker-1"]`, now.Add(MaxAge)},
		"an address of two Nodes": {func(s *Situation) { s.Others = map[string][]string{"10.0.0.1": {"worker-2"}} }, "AddressClaimedTwice", `10.0.0.1: Node "worker-2" also has it`, now.Add(time.Second + claimRetry)},
	} {
		t.Run(name, func(t *testing.T) {
			s := right(t)
			c.change(&s)
			d := Decide(s)
			assert.Equal(t, Wait, d.Verdict)
			assert.Equal(t, c.reason, d.Reason)
			assert.Contains(t, d.Message, c.saying)
			assert.Equal(t, c.next, d.NextAt)
		})
	}
}

// A right request waits for the limits, but not beyond the time at which its kubelet asks anew.
func TestLimits(t *testing.T) {
	ofNode := func(share ratelimit.Share, _ int) ratelimit.Share { return share }
	ofAll := func(share ratelimit.Share, i int) ratelimit.Share {
		share.Subject.Name = fmt.Sprint("node-", i)
		return share
	}
	for name, c := range map[string]struct {
		before int // earlier requests
		share  func(ratelimit.Share, int) ratelimit.Share
		saying string
		next   time.Duration // after the decision
	}{
		"the limit of the node":      {10, ofNode, "the limit for one node is reached (10 at once, then one every 5m0s); this request is answered at 2026-11-01T12:05:01Z", 5 * time.Minute},
		"the limit of all nodes":     {1000, ofAll, "the limit for all nodes is reached (1000 at once, then one every 100ms)", 100 * time.Millisecond},
		"a limit beyond its own end": {20, ofNode, "at 2026-11-01T12:55:01Z", MaxAge - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s, pace := right(t), ratelimit.New(Rates())
			share := Decide(s).Share
			_, _, waits := pace.Waits(share, s.Now)
			assert.False(t, waits)
			pace = ratelimit.New(Rates())
			for i := range c.before {
				another := c.share(share, i)
				another.Request.Name = fmt.Sprint("another-", i)
				pace.Waits(another, s.Now)
			}
			until, why, waits := pace.Waits(share, s.Now)
			require.True(t, waits)
			d := s.Limited(until, why)
			assert.Equal(t, Wait, d.Verdict)
			assert.Equal(t, "RateLimited", d.Reason)
			assert.Contains(t, d.Message, c.saying)
			assert.Equal(t, s.Now.Add(c.next), d.NextAt)
		})
	}
}

// What has an answer, or is for another signer, is never touched.
func TestAnsweredRequestsAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
		"approved": func(o *certificatesv1.CertificateSigningRequest) {
			o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
		},
		"denied": func(o *certificatesv1.CertificateSigningRequest) {
			o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		},
		"failed": func(o *certificatesv1.CertificateSigningRequest) {
			o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed}}
		},
		"unknown": func(o *certificatesv1.CertificateSigningRequest) {
			o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "x"}}
		},
		"signed": func(o *certificatesv1.CertificateSigningRequest) { o.Status.Certificate = []byte("x") },
		"another signer": func(o *certificatesv1.CertificateSigningRequest) {
			o.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := objectOf([]byte("x"))
			change(o)
			s := right(t)
			s.Request = RequestOf(o)
			assert.Equal(t, Decision{}, Decide(s))
			assert.False(t, FactsOf(o).IsPending())
			assert.Empty(t, FactsOf(o).Tenant())
		})
	}
}

func TestFacts(t *testing.T) {
	o := objectOf(nil)
	assert.Equal(t, TenantOf("worker-1"), FactsOf(o).Tenant())
	o.Spec.Username = strings.Repeat("a", 1<<20)
	assert.LessOrEqual(t, len(FactsOf(o).Tenant()), 253)
}

func TestNode(t *testing.T) {
	n := nodeOf("worker-1", "Hostname=Worker-1", "InternalDNS=worker-1", "InternalIP=10.0.0.2", "ExternalIP=::ffff:10.0.0.1", "InternalIP=x", "Other=10.0.0.9", "Hostname="+strings.Repeat("a", 300))
	assert.Equal(t, []string{"worker-1", "10.0.0.1", "10.0.0.2"}, n.Reports())
	assert.Equal(t, n.Reports(), n.Claims())
	assert.Equal(t, []string{"10.0.0.1", "worker-2"}, nodeOf("worker-2", "InternalIP=10.0.0.1").Claims(), "its name is its own, whether it reports it or not")
	longest := strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 62)+".", 4), ".") + "aa"
	assert.Equal(t, []string{longest}, nodeOf("worker-1", "Hostname="+longest).Names)
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("InternalIP=10.0.%d.%d", i/256, i%256))
	}
	assert.Len(t, nodeOf("worker-1", many...).IPs, maxReported)

	same := nodeOf("worker-1", "Hostname=worker-1", "InternalIP=10.0.0.1", "InternalIP=10.0.0.2")
	assert.True(t, n.SameAddresses(same))
	assert.False(t, n.SameAddresses(nil))
	assert.False(t, n.SameAddresses(nodeOf("worker-1", "Hostname=worker-1")))
	again := *same
	again.UID = "2"
	assert.False(t, same.SameAddresses(&again), "it was made again")
}

func TestParseAllowed(t *testing.T) {
	a, err := ParseAllowed([]string{"10.0.0.0/8"}, nil, "cluster.local")
	require.NoError(t, err)
	assert.Len(t, a.CIDRs, 1)
	a, err = ParseAllowed([]string{"10.0.0.0/8"}, []string{"example.com"}, "cluster.local")
	require.NoError(t, err)
	assert.Equal(t, []string{"example.com"}, a.Suffixes)
	for _, c := range []struct {
		cidrs, suffixes []string
		want            string
	}{
		{nil, nil, "--approve-kubelet-serving: requires --node-cidrs (such as 10.0.0.0/16), --node-dns-suffixes (such as nodes.example.com), or both"},
		{[]string{"10.0.0.1"}, nil, `--node-cidrs: "10.0.0.1": must be a range of IP addresses`},
		{[]string{"10.0.0.1/8"}, nil, `--node-cidrs: "10.0.0.1/8": has bits set beyond the prefix length: must be 10.0.0.0/8`},
		{[]string{"0.0.0.0/0"}, nil, `--node-cidrs: "0.0.0.0/0": contains every address`},
		{[]string{"::/0"}, nil, `--node-cidrs: "::/0": contains every address`},
		{nil, []string{".example.com"}, `--node-dns-suffixes: ".example.com": suffix ".example.com" is not a valid DNS name`},
		{nil, []string{"svc.cluster.local"}, `overlaps "cluster.local", which contains the names of Services`},
		{nil, []string{"local"}, `overlaps "cluster.local"`},
		{nil, []string{"10.0.0.1"}, "is an IP address"},
	} {
		_, err := ParseAllowed(c.cidrs, c.suffixes, "cluster.local")
		assert.ErrorContains(t, err, c.want)
	}
}
