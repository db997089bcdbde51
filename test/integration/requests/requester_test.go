package requests

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// account is the ServiceAccount of every pod.
const account = "server"

// newNamespace makes a namespace with the ServiceAccount, opted in or not.
func newNamespace(t *testing.T, optedIn bool) string {
	t.Helper()
	return newNamespaceCalled(t, "shop-", optedIn)
}

// newNamespaceCalled makes one whose name begins so.
func newNamespaceCalled(t *testing.T, prefix string, optedIn bool) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prefix + utilrand.String(6)}}
	if optedIn {
		ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled}
	}
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.CoreV1().ServiceAccounts(ns.Name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns.Name
}

// newService makes a Service that selects app=NAME and lets its pods make their keys.
func newService(t *testing.T, namespace, name string, change ...func(*corev1.Service)) {
	t.Helper()
	svc := harness.Service(namespace, name)
	svc.Annotations = map[string]string{api.AnnotationKeySource: "pod"}
	for _, c := range change {
		c(svc)
	}
	_, err := admin.CoreV1().Services(namespace).Create(t.Context(), svc, metav1.CreateOptions{})
	require.NoError(t, err)
}

// hasSecret makes a Service one whose certificate is in a Secret.
func hasSecret(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations = map[string]string{api.AnnotationSecretName: name} }
}

// selects has a Service select app=APP.
func selects(t *testing.T, namespace, service, app string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"selector":{"app":%q}}}`, app)
	_, err := admin.CoreV1().Services(namespace).Patch(t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// optIn gives a namespace the label.
func optIn(t *testing.T, namespace string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, api.LabelInject, api.InjectEnabled)
	_, err := admin.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// newPod makes a pod with label app=APP.
func newPod(t *testing.T, namespace, name, app string) *corev1.Pod {
	t.Helper()
	pod, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "registry.example/app"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod
}

// tokenOf is a client with a token of the namespace's ServiceAccount, bound to the pod; to
// none if it is nil.
func tokenOf(t *testing.T, namespace string, pod *corev1.Pod) *kubernetes.Clientset {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(plane.AdminConfig())
	config.BearerToken = answer.Status.Token
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return c
}

// host is a client with a certificate of its own, which may serve these Services.
func host(t *testing.T, namespace string, services ...string) *kubernetes.Clientset {
	t.Helper()
	user := "host-" + utilrand.String(6)
	config, err := plane.UserConfig(user)
	require.NoError(t, err)
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	if len(services) == 0 {
		return c
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	_, err = admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"servingcert.dev"}, Resources: []string{"services"}, ResourceNames: services, Verbs: []string{"serve"},
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	may := authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: namespace, Group: "servingcert.dev", Resource: "services", Name: services[0], Verb: "serve",
	}}
	harness.Eventually(t, func() error { return granted(t.Context(), may) })
	return c
}

// granted returns nil once the API server, which learns of roles by a watch, permits it.
func granted(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) error {
	review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("user %q may not yet %q", spec.User, spec.ResourceAttributes.Verb)
	}
	return err
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	return signertest.Key(t, pki.ECDSAP256)
}

// pkcs10 is a request for the names in PEM, changed.
func pkcs10(t *testing.T, key crypto.Signer, names []string, change ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	named := func(r *x509.CertificateRequest) { r.DNSNames = names }
	return issue.EncodeCSR(signertest.CSR(t, key, append([]func(*x509.CertificateRequest){named}, change...)...))
}

// requestFor is the object with a PKCS #10 request.
func requestFor(data []byte, change ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-", Annotations: map[string]string{"example.com/note": "kept"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: api.SignerName, Request: data,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

// mayAsk is the right of everybody to make requests.
var mayAsk = authorizationv1.SubjectAccessReviewSpec{
	User: "anybody", Groups: []string{"system:authenticated"},
	ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Verb: "create"},
}

func ask(t *testing.T, as kubernetes.Interface, o *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	o, err := as.CertificatesV1().CertificateSigningRequests().Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return o
}

// asked returns nil once a pod of the namespace has made a request.
func asked(t *testing.T, namespace string) error {
	t.Helper()
	list, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Spec.Username == "system:serviceaccount:"+namespace+":"+account {
			return nil
		}
	}
	return fmt.Errorf("no pod of namespace %s has made a request", namespace)
}

// answerTo waits until the request was signed, denied or has failed; condition is what
// was said last.
func answerTo(t *testing.T, o *certificatesv1.CertificateSigningRequest) (answered *certificatesv1.CertificateSigningRequest, condition certificatesv1.CertificateSigningRequestCondition) {
	t.Helper()
	harness.Eventually(t, func() (err error) {
		answered, err = admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n := len(answered.Status.Conditions); n > 0 {
			condition = answered.Status.Conditions[n-1]
		}
		if len(answered.Status.Certificate) > 0 || condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
			return nil
		}
		return fmt.Errorf("request %s has no answer", o.Name)
	})
	return answered, condition
}

// issued waits for the certificate, and checks it as a client would.
func issued(t *testing.T, o *certificatesv1.CertificateSigningRequest, key crypto.Signer) *x509.Certificate {
	t.Helper()
	answered, condition := answerTo(t, o)
	require.Equal(t, certificatesv1.CertificateApproved, condition.Type, "%s: %s", condition.Reason, condition.Message)
	require.Equal(t, o.Annotations, answered.Annotations)
	chain, err := pki.ParseCertificates(answered.Status.Certificate)
	require.NoError(t, err)
	require.True(t, pki.KeyMatches(chain[0], key))
	verify(t, chain)
	return chain[0]
}

// verify checks a chain against the bundle that clients have.
func verify(t *testing.T, chain []*x509.Certificate) {
	t.Helper()
	cm, err := admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	roots, err := pki.ParseCertificates([]byte(cm.Data[api.BundleKey]))
	require.NoError(t, err)
	for _, root := range roots {
		if err = pki.VerifyServing(chain[0], chain[1:], root, time.Now()); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

// saidOf waits for an event about the request with the reason.
func saidOf(t *testing.T, o *certificatesv1.CertificateSigningRequest, reason string) string {
	t.Helper()
	return harness.Said(t, admin, metav1.NamespaceDefault, o.UID, reason)
}

// approve approves a request by hand.
func approve(t *testing.T, o *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "ByHand",
	})
	o, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), o.Name, o, metav1.UpdateOptions{})
	require.NoError(t, err)
	return o
}
