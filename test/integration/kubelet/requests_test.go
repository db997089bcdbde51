package kubelet

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// kubelet is a node and its address. Those of one test have addresses of their own.
type kubelet struct{ name, ip string }

func newKubelet(ip string) kubelet { return kubelet{"worker-" + utilrand.String(6), ip} }

func (k kubelet) dns() string { return k.name + ".nodes.example.com" }

// register makes the Node, which reports its addresses and more.
func (k kubelet) register(t *testing.T, more ...corev1.NodeAddress) {
	t.Helper()
	node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { // its addresses are the next test's
		assert.NoError(t, admin.CoreV1().Nodes().Delete(context.Background(), k.name, metav1.DeleteOptions{}))
	})
	k.report(t, node, more...)
}

func (k kubelet) report(t *testing.T, node *corev1.Node, more ...corev1.NodeAddress) {
	t.Helper()
	node.Status.Addresses = append([]corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: k.name}, {Type: corev1.NodeInternalDNS, Address: k.dns()}, {Type: corev1.NodeInternalIP, Address: k.ip},
	}, more...)
	_, err := admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// template is what the kubelet asks for, changed.
func (k kubelet) template(change ...func(*x509.CertificateRequest)) *x509.CertificateRequest {
	r := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + k.name, Organization: []string{"system:nodes"}},
		DNSNames: []string{k.name, k.dns()}, IPAddresses: []net.IP{net.ParseIP(k.ip)},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// asks makes the request, as the user that it is, with a new key.
func asks(t *testing.T, user rest.ImpersonationConfig, template *x509.CertificateRequest, change ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	o := hosttest.KubeletRequest(t, template)
	for _, c := range change {
		c(o)
	}
	config := rest.CopyConfig(plane.AdminConfig())
	config.Impersonate = user
	as, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	o, err = as.CertificatesV1().CertificateSigningRequests().Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return o
}

// user is how the API server knows the kubelet. Group system:masters lets it make requests that
// the Node authorizer has no rule for.
func (k kubelet) user() rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: "system:node:" + k.name, Groups: []string{"system:nodes", "system:masters"}}
}

// becomes waits until the request has a condition of the kind, and returns it as it is then.
func becomes(t *testing.T, o *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) (*certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestCondition) {
	t.Helper()
	var condition certificatesv1.CertificateSigningRequestCondition
	harness.Eventually(t, func() (err error) {
		if o, err = admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, condition = range o.Status.Conditions {
			if condition.Type == kind {
				return nil
			}
		}
		return fmt.Errorf("request %s: not %s: %v", o.Name, kind, o.Status.Conditions)
	})
	return o, condition
}

// issued waits until kube-controller-manager has signed the request.
func issued(t *testing.T, o *certificatesv1.CertificateSigningRequest) *x509.Certificate {
	t.Helper()
	_, condition := becomes(t, o, certificatesv1.CertificateApproved)
	assert.Equal(t, "NodeAddresses", condition.Reason)
	harness.Eventually(t, func() (err error) {
		o, err = admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
		if err == nil && len(o.Status.Certificate) == 0 {
			err = fmt.Errorf("request %s is not signed", o.Name)
		}
		return err
	})
	chain, err := pki.ParseCertificates(o.Status.Certificate)
	require.NoError(t, err)
	return chain[0]
}

// says waits for an event on the request.
func says(t *testing.T, o *certificatesv1.CertificateSigningRequest, reason string) string {
	t.Helper()
	return harness.Said(t, admin, metav1.NamespaceDefault, o.UID, reason)
}

// A kubelet's request is approved, and kube-controller-manager signs it.
func TestAKubeletGetsItsCertificate(t *testing.T) {
	startSigner(t, approving...)
	k := newKubelet("10.0.0.1")
	k.register(t, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "fd00::1"})
	leaf := issued(t, asks(t, k.user(), k.template(func(r *x509.CertificateRequest) { r.IPAddresses = append(r.IPAddresses, net.ParseIP("fd00::1")) })))
	assert.Equal(t, "system:node:"+k.name, leaf.Subject.CommonName)
	assert.ElementsMatch(t, []string{k.name, k.dns()}, leaf.DNSNames)
	assert.Len(t, leaf.IPAddresses, 2)
	assert.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage)
	again := asks(t, k.user(), k.template())
	assert.NotEqual(t, leaf.SerialNumber, issued(t, again).SerialNumber, "it may ask again")
}

// What is not yet true waits with its reason, and is approved once it is.
func TestARequestOfAKubeletWaits(t *testing.T) {
	startSigner(t, approving...)
	k := newKubelet("10.0.0.2")
	o := asks(t, k.user(), k.template())
	assert.Equal(t, fmt.Sprintf("Node %q does not exist", k.name), says(t, o, "NodeNotFound"))
	k.register(t)
	issued(t, o)

	o = asks(t, k.user(), k.template(func(r *x509.CertificateRequest) { r.IPAddresses = append(r.IPAddresses, net.ParseIP("10.0.0.3")) }))
	assert.Contains(t, says(t, o, "AddressNotReported"), `does not report ["10.0.0.3"] among its addresses`)
	node, err := admin.CoreV1().Nodes().Get(t.Context(), k.name, metav1.GetOptions{})
	require.NoError(t, err)
	k.report(t, node, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "10.0.0.3"})
	issued(t, o)

	another := newKubelet("10.0.0.2")
	another.register(t)
	o = asks(t, another.user(), another.template())
	assert.Equal(t, fmt.Sprintf("10.0.0.2: Node %q also has it", k.name), says(t, o, "AddressClaimedTwice"))
}

// What a stolen node may not have is denied with the reason.
func TestAStolenNodesRequests(t *testing.T) {
	startSigner(t, approving...)
	victim, k := newKubelet("10.0.0.4"), newKubelet("10.0.0.5")
	victim.register(t)
	k.register(t, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: "web.shop.svc"})
	account := rest.ImpersonationConfig{UserName: "system:serviceaccount:default:default", Groups: []string{"system:masters"}}
	for name, c := range map[string]struct {
		as     rest.ImpersonationConfig
		change func(*x509.CertificateRequest)
		reason string
	}{
		"another node's address":     {k.user(), func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP(victim.ip)} }, "AddressOfAnotherNode"},
		"a Service's name, reported": {k.user(), func(r *x509.CertificateRequest) { r.DNSNames = []string{"web.shop.svc"} }, "NameNotPermitted"},
		"as a ServiceAccount":        {account, func(*x509.CertificateRequest) {}, "NotANode"},
	} {
		t.Run(name, func(t *testing.T) {
			o := asks(t, c.as, k.template(c.change))
			answered, condition := becomes(t, o, certificatesv1.CertificateDenied)
			assert.Equal(t, c.reason, condition.Reason, condition.Message)
			assert.Empty(t, answered.Status.Certificate)
			assert.Equal(t, condition.Message, says(t, o, c.reason))
		})
	}
}

// Without the flag nothing is answered, and what a person has answered is left alone with it.
func TestOnlyWithTheFlag(t *testing.T) {
	k := newKubelet("10.0.0.6")
	k.register(t)
	denied := asks(t, k.user(), k.template())
	denied.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "ByHand"}}
	_, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), denied.Name, denied, metav1.UpdateOptions{})
	require.NoError(t, err)
	waiting := asks(t, k.user(), k.template())
	t.Run("without", func(t *testing.T) {
		startSigner(t)
		harness.Eventually(t, func() error { // it works: it has a CA
			_, err := admin.CoreV1().ConfigMaps("servingcert-system").Get(t.Context(), "servingcert-ca-status", metav1.GetOptions{})
			return err
		})
		o, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), waiting.Name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, o.Status.Conditions)
	})
	startSigner(t, approving...)
	issued(t, waiting)
	o, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), denied.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, o.Status.Conditions, 1)
	assert.Equal(t, "ByHand", o.Status.Conditions[0].Reason)
}

// withoutTheRight returns an error unless the signer may not approve what kubelets ask for, as it
// is without the manifest.
func withoutTheRight(ctx context.Context, account *rest.Config) error {
	c, err := kubernetes.NewForConfig(account)
	if err != nil {
		return err
	}
	for _, a := range []authorizationv1.ResourceAttributes{
		{Group: "certificates.k8s.io", Resource: "signers", Name: "kubernetes.io/kubelet-serving", Verb: "approve"},
		{Resource: "nodes", Verb: "list"},
	} {
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err == nil && review.Status.Allowed {
			err = errors.New("the signer may " + a.Verb + " " + a.Resource + " without the manifest")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Who has the signer's token approves nothing but what nodes ask to serve with.
func TestWhatAStolenSignerCannotApprove(t *testing.T) {
	config, err := plane.ServiceAccountConfig(t.Context(), "servingcert-system", "servingcert-signer")
	require.NoError(t, err)
	stolen, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	k := newKubelet("10.0.0.7")
	account := rest.ImpersonationConfig{UserName: "system:serviceaccount:default:default", Groups: []string{"system:masters"}}
	client := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	approve := func(o *certificatesv1.CertificateSigningRequest) error {
		o, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
		require.NoError(t, err)
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Stolen"})
		_, err = stolen.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), o.Name, o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for name, c := range map[string]struct {
		o    *certificatesv1.CertificateSigningRequest
		says string
	}{
		"of a ServiceAccount": {asks(t, account, k.template()), "only for nodes"},
		"for a client":        {asks(t, k.user(), k.template(), func(o *certificatesv1.CertificateSigningRequest) { o.Spec.Usages = client }), "only with usages of a serving certificate"},
		"of another signer": {asks(t, k.user(), k.template(), func(o *certificatesv1.CertificateSigningRequest) {
			o.Spec.SignerName, o.Spec.Usages = certificatesv1.KubeAPIServerClientSignerName, client
		}), "not permitted to approve requests with signerName"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Eventually(t, func() error { // the API server learns of a policy, and of the right, by watches
				err := approve(c.o)
				if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) {
					return errors.Join(fmt.Errorf("not refused with %q", c.says), err)
				}
				return nil
			})
		})
	}
	assert.NoError(t, approve(asks(t, k.user(), k.template())), "that is what the right is for")
}
