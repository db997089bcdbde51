package doctor

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

func running(args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Args: args}}}
	return d
}

// kubeletAsked adds a kubelet's request of that age, after one that was signed.
func kubeletAsked(condition certificatesv1.RequestConditionType, reason, message string, ago time.Duration) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		request := func(name string, ago time.Duration) certificatesv1.CertificateSigningRequest {
			o := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-ago))}}
			o.Spec.Username = "system:node:worker-1"
			return o
		}
		first, last := request("csr-1", time.Hour), request("csr-2", ago)
		first.Status.Certificate = []byte("x")
		if condition != "" {
			last.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition, Reason: reason, Message: message}}
		}
		f.Installation.KubeletRequests = []certificatesv1.CertificateSigningRequest{last, first}
	}
}

func TestApprovesKubelets(t *testing.T) {
	for arg, want := range map[string]bool{"--approve-kubelet-serving": true, "--approve-kubelet-serving=true": true, "--approve-kubelet-serving=false": false, "--csr=false": false} {
		i := &Installation{Deployments: map[string]*appsv1.Deployment{"servingcert-signer": running(arg)}}
		assert.Equal(t, want, i.ApprovesKubelets(), arg)
	}
	assert.False(t, (&Installation{}).ApprovesKubelets())
}

// A recent request without an answer is no finding, and only the newest request of a node counts.
func TestARecentKubeletRequest(t *testing.T) {
	f := healthy(t)
	kubeletAsked("", "", "", answerTime-time.Second)(t, &f)
	assert.Empty(t, f.Installation.kubelets(noon))
	kubeletAsked("", "", "", answerTime)(t, &f)
	assert.Len(t, f.Installation.kubelets(noon), 1)
}

// leafOf returns a certificate for a day, issued by a CA or self-signed, of that age.
func leafOf(t *testing.T, cn, address string, age time.Duration, selfSigned bool) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn, Organization: []string{"system:nodes"}}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: noon.Add(-age), NotAfter: noon.Add(24*time.Hour - age),
	}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}
	if selfSigned {
		parent = template
	}
	return signertest.Certify(t, template, parent, key.Public(), key)
}

func TestWhatAKubeletServes(t *testing.T) {
	const own, address = "system:node:worker", "10.0.0.5"
	good := leafOf(t, own, address, time.Hour, false)
	for what, c := range map[string]struct {
		leaf, issued *x509.Certificate
		says         string
	}{
		"the issued one is unknown":                 {leaf: good},
		"what it was issued":                        {leaf: good, issued: good},
		"the one before, a moment ago":              {leaf: good, issued: leafOf(t, own, address, backdated+reloadTime-time.Second, false)},
		"the one before":                            {leaf: good, issued: leafOf(t, own, address, backdated+reloadTime+time.Second, false), says: "but the newest issued one is sha256:"},
		"a newer one, of a request that is gone":    {leaf: good, issued: leafOf(t, own, address, 2*time.Hour, false)},
		"self-signed":                               {leaf: leafOf(t, own, address, time.Hour, true), says: "is serverTLSBootstrap on"},
		"another node's":                            {leaf: leafOf(t, "system:node:other", address, time.Hour, false), says: "not issued to the node"},
		"for another address":                       {leaf: leafOf(t, own, "10.0.0.6", time.Hour, false), says: "not valid for its address 10.0.0.5"},
		"ended":                                     {leaf: leafOf(t, own, address, 25*time.Hour, false), says: "not valid now"},
		"not begun":                                 {leaf: leafOf(t, own, address, -time.Hour, false), says: "not valid now"},
		"at 90 % of its life, which a kubelet uses": {leaf: leafOf(t, own, address, 24*time.Hour*90/100, false)},
		"at 96 % of its life":                       {leaf: leafOf(t, own, address, 24*time.Hour*96/100, false), says: "should have renewed"},
		"none":                                      {says: "its kubelet serves no certificate: refused"},
	} {
		got := Kubelet{Node: "worker", Address: netip.MustParseAddr(address), Leaf: c.leaf, Problem: "refused"}.leafProblem(c.issued, noon)
		assert.Contains(t, got, c.says, what)
		assert.Equal(t, c.says == "", got == "", "%s: %s", what, got)
	}
}

// The certificate that a kubelet was issued is that of its node's newest request.
func TestAKubeletThatServesTheCertificateBefore(t *testing.T) {
	f := healthy(t)
	kubeletAsked("Approved", "", "", time.Hour)(t, &f)
	issued := leafOf(t, "system:node:worker-1", "10.0.0.5", time.Hour, false)
	f.Installation.KubeletRequests[0].Status.Certificate = pki.EncodeCertificates(issued)
	f.Installation.KubeletRequests = f.Installation.KubeletRequests[:1]
	serves := func(leaf *x509.Certificate) []Finding {
		f.Installation.Kubelets = []Kubelet{{Node: "worker-1", Address: netip.MustParseAddr("10.0.0.5"), Leaf: leaf}}
		return f.Installation.kubelets(noon)
	}
	assert.Empty(t, serves(issued))
	assert.Len(t, serves(leafOf(t, "system:node:worker-1", "10.0.0.5", 2*time.Hour, false)), 1)
}
