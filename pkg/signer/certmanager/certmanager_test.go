package certmanager

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

var (
	epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	vault = Issuer{Kind: "ClusterIssuer", Name: "vault", Group: Group}
)

func TestParseIssuer(t *testing.T) {
	for in, want := range map[string]Issuer{
		"ClusterIssuer/vault":                             vault,
		"Issuer/vault.cert-manager.io":                    {"vault", "Issuer", Group},
		"AWSPCAClusterIssuer/pca.awspca.cert-manager.io":  {"pca", "AWSPCAClusterIssuer", "awspca.cert-manager.io"},
		"AWSPCAClusterIssuer.awspca.cert-manager.io/p.ca": {"p.ca", "AWSPCAClusterIssuer", "awspca.cert-manager.io"},
	} {
		got, err := ParseIssuer(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
		again, err := ParseIssuer(got.String())
		require.NoError(t, err)
		assert.Equal(t, got, again, "String is read as what it was made of")
	}
	for in, says := range map[string]string{
		"":                         `"": must be KIND/NAME`,
		"vault":                    "must be KIND/NAME",
		"/vault":                   `"" is not a kind`,
		"clusterissuer/vault":      `"clusterissuer" is not a kind`,
		"ClusterIssuer/":           `"" is not the name of an object`,
		"ClusterIssuer/a/b":        `"a/b" is not the name of an object`,
		"ClusterIssuer/Vault":      `"Vault" is not the name`,
		"ClusterIssuer/a.Bad_Grp":  `"Bad_Grp" is not an API group`,
		strings.Repeat("x", 10000): "must be KIND/NAME",
	} {
		_, err := ParseIssuer(in)
		require.ErrorContains(t, err, says, in)
		assert.Less(t, len(err.Error()), 500)
	}
}

func wanted() api.Wanted {
	return api.Wanted{DNSNames: []string{"web.shop.svc"}, Params: api.Params{KeyAlgorithm: pki.ECDSAP256, Duration: time.Hour}}
}

// The name is the same for the same certificate, and different for any other.
func TestNameOf(t *testing.T) {
	name := NameOf(vault, "shop/web-tls", wanted())
	assert.Equal(t, name, NameOf(vault, "shop/web-tls", wanted()))
	other := []string{
		NameOf(Issuer{Kind: "Issuer", Name: "vault", Group: Group}, "shop/web-tls", wanted()),
		NameOf(vault, "shop/web2-tls", wanted()),
	}
	for _, change := range []func(*api.Wanted){
		func(w *api.Wanted) { w.DNSNames = []string{"web.shop.svc web2.shop.svc"} },
		func(w *api.Wanted) { w.DNSNames = []string{"web.shop.svc", "web2.shop.svc"} },
		func(w *api.Wanted) { w.IPs = []netip.Addr{netip.MustParseAddr("10.0.0.1")} },
		func(w *api.Wanted) { w.Params.KeyAlgorithm = pki.RSA2048 },
		func(w *api.Wanted) { w.Params.Duration = 2 * time.Hour },
	} {
		w := wanted()
		change(&w)
		other = append(other, NameOf(vault, "shop/web-tls", w))
	}
	seen := map[string]bool{name: true}
	for i, n := range other {
		assert.False(t, seen[n], "change %d", i)
		seen[n] = true
		assert.LessOrEqual(t, len(n), 63)
	}
}

func TestNewRequest(t *testing.T) {
	key, err := pki.GenerateKey(pki.RSA2048)
	require.NoError(t, err)
	csr, err := NewCSR(key, []string{"web.shop.svc"}, []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	w := Wish{Namespace: "system", Name: "n", Instance: "one", For: "shop/web-tls", Issuer: vault, SigningRequest: issue.SigningRequest{
		CSR: csr, KeyAlgorithm: pki.RSA2048, NotAfter: epoch.Add(time.Hour),
	}}
	r := w.New(epoch)
	object, err := r.Object()
	require.NoError(t, err)
	assert.NotContains(t, object, "status")
	back, err := FromObject(object)
	require.NoError(t, err)
	assert.Equal(t, r, back)
	assert.Equal(t, "shop", back.Tenant())
	assert.False(t, back.IsProbe())
	assert.Equal(t, map[string]string{api.LabelManagedBy: "one.pending", labelRole: roleRequest}, back.Labels)
	assert.Equal(t, []string{"digital signature", "server auth", "key encipherment"}, back.Spec.Usages)
	assert.Equal(t, 59*time.Minute, back.Spec.Duration.Duration)
	block, _ := pem.Decode(back.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, []string{"web.shop.svc"}, parsed.DNSNames)
	assert.Len(t, parsed.IPAddresses, 1)
	_, err = FromObject(map[string]any{"spec": "x"})
	assert.ErrorContains(t, err, Kind)
}

// authority is a test CA.
type authority struct {
	cert *x509.Certificate
	sign func(template *x509.Certificate, pub any) *x509.Certificate
}

func newAuthority(t *testing.T, number int, above *authority) *authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, number, pki.Constraints{PermittedDNS: []string{"svc"}}, epoch.Add(-time.Hour), epoch.AddDate(1, 0, 0))
	require.NoError(t, err)
	a := &authority{cert: root}
	a.sign = func(template *x509.Certificate, pub any) *x509.Certificate {
		template.SerialNumber, err = pki.NewSerial()
		require.NoError(t, err)
		return signertest.Certify(t, template, a.cert, pub, key)
	}
	if above != nil {
		a.cert = above.sign(root, key.Public())
	}
	return a
}

func (a *authority) leaf(t *testing.T) *x509.Certificate {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	return a.sign(&x509.Certificate{DNSNames: []string{"web.shop.svc"}, NotBefore: epoch, NotAfter: epoch.Add(time.Hour)}, key.Public())
}

func at(d time.Duration) metav1.Time { return metav1.NewTime(epoch.Add(d)) }

func answered(conditions ...metav1.Condition) *Request {
	r := &Request{Spec: Spec{IssuerRef: vault}, Status: Status{Conditions: conditions}}
	r.Name, r.CreationTimestamp = "r", at(0)
	return r
}

func says(kind string, status bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: at(time.Minute)}
	if status {
		c.Status = metav1.ConditionTrue
	}
	return c
}

func TestAnswer(t *testing.T) {
	root := newAuthority(t, 1, nil)
	good := pki.EncodeCertificates(root.leaf(t), root.cert)
	approved := says("Approved", true, "policy", "yes")
	signed := func(certificate []byte) *Request {
		r := answered(approved, says("Ready", true, "Issued", ""))
		r.Status.Certificate, r.Status.CA = certificate, []byte("not PEM")
		return r
	}
	atOnce := answered(says("Denied", true, "policy", "no"), says("Ready", false, "Denied", ""))
	failedLater := answered(approved, says("Ready", false, "Failed", "no"))
	later := at(time.Hour)
	failedLater.Status.FailureTime = &later
	for name, c := range map[string]struct {
		request *Request
		reason  issue.Reason // "": Waits
		text    string       // part of the message; "": it is signed
		at      time.Duration
	}{
		"nobody has looked":              {answered(), "", "is not approved yet", 0},
		"not approved, and pending":      {answered(says("Ready", false, "Pending", "Waiting")), "", "is not approved yet", 0},
		"approved":                       {answered(approved), "", "the issuer has not answered", 0},
		"pending":                        {answered(approved, says("Ready", false, "Pending", "the issuer\nis gone")), "", "waits: the issuer", 0},
		"denied":                         {atOnce, issue.ReasonCARefused, "CertificateRequest r to ClusterIssuer/vault was denied by an approval policy: no", time.Minute},
		"denied, though it was approved": {answered(approved, says("Denied", true, "policy", "no")), issue.ReasonCARefused, "was denied", time.Minute},
		"invalid":                        {answered(says("InvalidRequest", true, "x", "no")), issue.ReasonCARefused, "ClusterIssuer/vault is invalid: no", time.Minute},
		"failed":                         {answered(approved, says("Ready", false, "Failed", "quota")), issue.ReasonCARefused, "has failed: quota", time.Minute},
		"failed without a word":          {answered(approved, says("Ready", false, "Failed", "")), issue.ReasonCARefused, "has failed: Failed", time.Minute},
		"failed at a time":               {failedLater, issue.ReasonCARefused, "has failed", time.Hour},
		"says a lot":                     {answered(approved, says("Ready", false, "Failed", strings.Repeat("x", 1<<20))), issue.ReasonCARefused, "xxx", time.Minute},
		"ready without a certificate":    {signed(nil), issue.ReasonCAAnswer, "status.certificate is not a certificate", time.Minute},
		"ready with something else":      {signed([]byte("hello")), issue.ReasonCAAnswer, "status.certificate is not a certificate", time.Minute},
		"ready with too much":            {signed(make([]byte, maxAnswer+1)), issue.ReasonCAAnswer, "must be at most", time.Minute},
		"signed":                         {signed(good), "", "", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.request.Answer()
			assert.Equal(t, epoch.Add(c.at), a.At.UTC())
			switch {
			case c.text == "":
				require.NotNil(t, a.Leaf)
				assert.Len(t, a.After, 1)
				assert.Empty(t, a.CA, "what is no certificate is none")
			case c.reason == "":
				assert.Contains(t, a.Waits, c.text)
				assert.Nil(t, a.Leaf)
				pending := a.Pending(epoch.Add(time.Second))
				assert.Equal(t, 500*time.Millisecond, pending.Again, "half of its age")
				assert.True(t, pending.Quiet(epoch.Add(9*time.Second)))
				assert.False(t, pending.Quiet(epoch.Add(10*time.Second)))
				assert.Equal(t, firstLook, a.Pending(epoch).Again)
				assert.Equal(t, lastLook, a.Pending(epoch.Add(time.Hour)).Again)
			default:
				require.NotNil(t, a.Err)
				assert.Contains(t, a.Err.Error(), c.text)
				assert.Less(t, len(a.Err.Error()), 400)
				assert.Equal(t, string(c.reason), a.Err.Reason())
				assert.False(t, a.Spent(a.At.Add(Rest-1)))
				assert.True(t, a.Spent(a.At.Add(Rest)))
			}
		})
	}
	other := newAuthority(t, 2, nil)
	a := signed(good).Answer()
	_, err := a.SignedBy(&pki.Authority{Issuer: pki.Issuer{Certificate: other.cert}})
	require.ErrorContains(t, err, "but clients trust CA")
	leaf, err := a.SignedBy(&pki.Authority{Issuer: pki.Issuer{Certificate: root.cert}})
	require.NoError(t, err)
	assert.Equal(t, a.Leaf, leaf)
}

func TestProbe(t *testing.T) {
	root := newAuthority(t, 1, nil)
	probe := func(name string, created time.Duration, conditions ...metav1.Condition) *Request {
		r := answered(conditions...)
		r.Name, r.CreationTimestamp = name, at(created)
		r.Status.Certificate = pki.EncodeCertificates(root.leaf(t))
		return r
	}
	signed := says("Ready", true, "Issued", "")
	failed := says("Ready", false, "Failed", "no")
	elsewhere := probe("elsewhere", 0, signed)
	elsewhere.Spec.IssuerRef.Name = "other"
	doubt := epoch.Add(2 * time.Minute)
	for name, c := range map[string]struct {
		probes  []*Request
		now     time.Duration
		doubted time.Time
		known   string
		ask     bool
		deleted string
		says    string
	}{
		"none":                       {nil, 0, time.Time{}, "", true, "", "a first certificate was requested"},
		"of another issuer":          {[]*Request{elsewhere}, 0, time.Time{}, "", true, "elsewhere", "a first certificate was requested"},
		"pending":                    {[]*Request{probe("a", 0)}, time.Hour, time.Time{}, "", false, "", "not approved yet"},
		"pending for days":           {[]*Request{probe("a", 0)}, 72 * time.Hour, time.Time{}, "", false, "", "not approved yet"},
		"failed":                     {[]*Request{probe("a", 0, failed)}, 10 * time.Minute, time.Time{}, "", false, "", "has failed: no"},
		"failed for long enough":     {[]*Request{probe("a", 0, failed)}, 11 * time.Minute, time.Time{}, "", true, "", "has failed: no"},
		"known":                      {[]*Request{probe("a", 0, signed)}, 23 * time.Hour, time.Time{}, "a", false, "", ""},
		"known for a day":            {[]*Request{probe("a", 0, signed)}, 24 * time.Hour, time.Time{}, "a", true, "", ""},
		"known, and doubted":         {[]*Request{probe("a", 0, signed)}, 3 * time.Minute, doubt, "a", true, "", ""},
		"doubted before":             {[]*Request{probe("a", 3*time.Minute, signed)}, 10 * time.Minute, doubt, "a", false, "", ""},
		"another is on its way":      {[]*Request{probe("b", time.Hour), probe("a", 0, signed)}, 24 * time.Hour, doubt, "a", false, "", ""},
		"another has failed":         {[]*Request{probe("b", time.Hour, failed), probe("a", 0, signed)}, time.Hour, time.Time{}, "a", true, "", ""},
		"one after another":          {[]*Request{probe("a", 0, signed), probe("c", 2*time.Hour, signed), probe("b", time.Hour, failed)}, 3 * time.Hour, time.Time{}, "c", false, "b a", ""},
		"failures after one another": {[]*Request{probe("a", 0, failed), probe("b", time.Hour, failed)}, time.Hour, time.Time{}, "", true, "a", "has failed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Probe(c.probes, vault, time.Time{}, c.doubted, epoch.Add(c.now))
			known := ""
			if p.Known != nil {
				known = p.Known.Name
			} else {
				require.ErrorContains(t, p.Err, c.says)
			}
			var deleted []string
			for _, r := range p.Delete {
				deleted = append(deleted, r.Name)
			}
			assert.Equal(t, c.known, known)
			assert.Equal(t, c.ask, p.Ask)
			assert.Equal(t, c.deleted, strings.Join(deleted, " "))
		})
	}
}

// After a person replaced the issuer's CA, the answers from before do not count, and one is requested at once.
func TestProbeSince(t *testing.T) {
	root := newAuthority(t, 1, nil)
	since := epoch.Add(10 * time.Second)
	probe := func(made time.Time, conditions ...metav1.Condition) *Request {
		r := answered(conditions...)
		r.Name, r.CreationTimestamp = ProbeName(made), metav1.NewTime(made.Add(-time.Minute)) // the API server's clock is behind
		r.Status.Certificate = pki.EncodeCertificates(root.leaf(t))
		return r
	}
	signed, failed := says("Ready", true, "Issued", ""), says("Ready", false, "Failed", "no")
	before, after := probe(epoch, signed), since.Add(2*time.Second)
	for name, c := range map[string]struct {
		probes []*Request
		known  bool
		ask    bool
		says   string
	}{
		"none":                       {nil, false, true, "a first certificate was requested"},
		"known from before":          {[]*Request{before}, false, true, "another certificate was requested"},
		"pending from before":        {[]*Request{before, probe(since.Add(-time.Second))}, false, true, "another certificate was requested"},
		"another is on its way":      {[]*Request{before, probe(after)}, false, false, "not approved yet"},
		"another has failed":         {[]*Request{before, probe(after, failed)}, false, false, "has failed: no"},
		"another was signed":         {[]*Request{before, probe(after, signed)}, true, false, ""},
		"another was signed at once": {[]*Request{before, probe(since, signed)}, true, false, ""},
		"by a clock that was ahead":  {[]*Request{before, probe(since.Add(time.Hour), signed)}, false, true, "another certificate was requested"},
	} {
		p := Probe(c.probes, vault, since, time.Time{}, epoch.Add(2*time.Minute))
		assert.Equal(t, c.ask, p.Ask, name)
		if assert.Equal(t, c.known, p.Known != nil, name); !c.known {
			assert.ErrorContains(t, p.Err, c.says, name)
		}
	}
	assert.NotNil(t, Probe([]*Request{before}, vault, time.Time{}, time.Time{}, epoch.Add(time.Hour)).Known)
}

// The CA is found in the issuer's answer, or in the operator's ConfigMap.
func TestAnchorOfAnAnswer(t *testing.T) {
	root, other := newAuthority(t, 1, nil), newAuthority(t, 2, nil)
	middle := newAuthority(t, 3, root)
	issuing := newAuthority(t, 4, middle)
	c := func(all ...*authority) (certs []*x509.Certificate) {
		for _, a := range all {
			certs = append(certs, a.cert)
		}
		return certs
	}
	for name, test := range map[string]struct {
		by        *authority
		after, ca []*x509.Certificate
		trusted   []*x509.Certificate
		chain     []*x509.Certificate
		root      *authority // nil: an error that contains
		says      string
	}{
		"a root, as cert-manager's CA issuer says it": {root, nil, c(root), nil, nil, root, ""},
		"a chain and its root":                        {issuing, c(issuing, middle), c(root), nil, c(issuing, middle), root, ""},
		"the issuer alone as ca":                      {middle, nil, c(middle), nil, nil, nil, "does not chain to a trusted root"},
		"and the root in the ConfigMap":               {middle, nil, c(middle), c(root), c(middle), root, ""},
		"all in the ConfigMap":                        {issuing, nil, nil, c(root, middle, issuing), c(issuing, middle), root, ""},
		"a root that the issuer says and is not ours": {root, nil, c(root), c(other), nil, nil, "does not chain to a trusted root"},
		"nothing":               {root, nil, nil, nil, nil, nil, "neither the issuer's answer nor --roots contains that CA"},
		"another CA":            {root, nil, c(other), nil, nil, nil, "neither the issuer's answer"},
		"the root in the chain": {middle, c(middle, root), nil, nil, c(middle), root, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := Answer{Leaf: test.by.leaf(t), After: test.after, CA: test.ca}
			chain, anchored, err := a.Anchor(test.trusted, "--roots", epoch)
			if test.root == nil {
				require.ErrorContains(t, err, test.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.root.cert, anchored)
			assert.Equal(t, test.chain, append([]*x509.Certificate(nil), chain...))
		})
	}
}
