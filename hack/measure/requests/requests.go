// Package requests has the signer answer PodCertificateRequests and
// CertificateSigningRequests, and measures how many a second, beside a bare client that
// writes as much.
package requests

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Burst is how many pods start at once.
const Burst = 500

const (
	nodeName = "node-1"
	podsOf   = "pods"                // the namespace of the pods that ask
	webName  = "web.pods.svc"        // and the name of their Service
	nobodys  = "bench.example/floor" // the signer of requests that the bare client answers
)

// Config says what is asked of whom.
type Config struct {
	*measure.Cluster
	Signer   string // the binary
	Workers  int    // of the signer, and of the bare client
	Requests int    // of each kind
	Secrets  int    // that the signer keeps certificates in
}

// Answered is what came of requests for keys that others hold.
type Answered struct {
	PodFloor, CSRFloor measure.Phase // answers of the bare client, a second
	Pods, CSRs         measure.Usage // from the signer's start
	// Of a signer that runs and had nothing else to do: from when it was given all at once.
	PodsRunning, CSRsRunning measure.Phase
	Burst                    time.Duration // until each pod of a burst has its certificate
}

// asking is who asks: the kubelet of a node, and a pod with its token.
type asking struct {
	Config
	pod      kubernetes.Interface
	key      crypto.Signer
	csr      []byte // PKCS #10 for webName, in DER
	template *certificatesv1.PodCertificateRequest

	certificates     controlplane.Certificates
	nodeCertificates controlplane.Certificates // as the kubelet of the node
}

// each runs f as many at a time as the signer has workers.
func (a *asking) each(ctx context.Context, n int, f func(context.Context, int) error) error {
	return measure.Each(ctx, n, a.Workers, f)
}

func (a *asking) startSigner(ctx context.Context, flags ...string) (*measure.Process, error) {
	return a.RunSigner(ctx, a.Signer, a.Workers, flags...)
}

// Run has the bare client and the signer answer requests of both kinds.
func Run(ctx context.Context, c Config) (r Answered, err error) {
	a := &asking{Config: c}
	if err := a.prepare(ctx); err != nil {
		return r, err
	}
	if err := a.runPods(ctx, &r); err != nil {
		return r, err
	}
	process.Step("bare answers to %d CertificateSigningRequests", c.Requests)
	if r.CSRFloor, err = a.csrFloor(ctx); err != nil {
		return r, fmt.Errorf("floor of CertificateSigningRequests: %w", err)
	}
	process.Step("the signer's answers to as many")
	if err = a.answerCSRs(ctx, &r); err != nil {
		return r, fmt.Errorf("CertificateSigningRequests: %w", err)
	}
	return r, nil
}

// RunPods is Run of PodCertificateRequests alone.
func RunPods(ctx context.Context, c Config) (r Answered, err error) {
	a := &asking{Config: c}
	if err := a.prepare(ctx); err != nil {
		return r, err
	}
	return r, a.runPods(ctx, &r)
}

func (a *asking) runPods(ctx context.Context, r *Answered) (err error) {
	process.Step("bare answers to %d PodCertificateRequests", a.Requests)
	if r.PodFloor, err = a.podFloor(ctx); err != nil {
		return fmt.Errorf("floor of PodCertificateRequests: %w", err)
	}
	process.Step("the signer's answers to as many, and to %d more at once", Burst)
	if err = a.answerPods(ctx, r); err != nil {
		return fmt.Errorf("PodCertificateRequests: %w", err)
	}
	return nil
}

// prepare makes a Service, its first pod, and those who ask.
func (a *asking) prepare(ctx context.Context) error {
	var err error
	if a.key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
		return err
	}
	if a.csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{webName}}, a.key); err != nil {
		return err
	}
	c := a.Client.CoreV1()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podsOf, Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	if _, err := c.Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	node, err := c.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	account, err := c.ServiceAccounts(podsOf).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "server"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443}}},
	}
	if _, err := c.Services(podsOf).Create(ctx, web, metav1.CreateOptions{}); err != nil {
		return err
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, a.key)
	if err != nil {
		return err
	}
	a.template = &certificatesv1.PodCertificateRequest{Spec: certificatesv1.PodCertificateRequestSpec{
		NodeName: nodeName, NodeUID: node.UID, ServiceAccountName: account.Name, ServiceAccountUID: account.UID, StubPKCS10Request: stub,
	}}
	return a.connect(ctx)
}

// connect makes the clients of those who ask.
func (a *asking) connect(ctx context.Context) error {
	kubelet, err := a.Plane.UserConfig("system:node:"+nodeName, "system:nodes")
	if err != nil {
		return err
	}
	kubelet.QPS = -1
	if a.nodeCertificates, err = controlplane.CertificatesOf(ctx, kubelet); err != nil {
		return err
	}
	unlimited := rest.CopyConfig(a.Plane.AdminConfig())
	unlimited.QPS = -1
	if a.certificates, err = controlplane.CertificatesOf(ctx, unlimited); err != nil {
		return err
	}
	pod, err := a.makePod(ctx, "web", api.SignerName)
	if err != nil {
		return err
	}
	bound := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	token, err := a.Client.CoreV1().ServiceAccounts(podsOf).CreateToken(ctx, "server", bound, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	of := rest.AnonymousClientConfig(a.Plane.AdminConfig())
	of.BearerToken, of.QPS = token.Status.Token, -1
	if a.pod, err = kubernetes.NewForConfig(of); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: "bench-requesters"}
	if _, err := a.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = a.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: podsOf, Name: "server"}},
	}, metav1.CreateOptions{})
	return err
}

// asked are requests of one kind that are made at once.
type asked struct {
	ask      func(ctx context.Context, i int) error
	answered func(ctx context.Context, i int) (bool, error)
	counter  string // the signer's, of those that it has answered
}

// answerAtOnce has a signer that runs and has looked at all Secrets answer requests that all come
// at once: it is stopped while they are made.
func (a *asking) answerAtOnce(ctx context.Context, p *measure.Process, of asked) (done measure.Phase, err error) {
	if err := p.WaitReconciled(ctx, a.Secrets); err != nil {
		return done, err
	}
	before, err := p.Scrape()
	if err != nil {
		return done, err
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return done, err
	}
	err = a.each(ctx, a.Requests, of.ask)
	m, beginErr := a.Begin(ctx, map[string]*measure.Process{measure.TheSigner: p})
	if err := errors.Join(err, beginErr, p.Signal(syscall.SIGCONT)); err != nil {
		return done, err
	}
	if err := of.wait(ctx, p, a.Requests, int(before.Sum(of.counter))+a.Requests); err != nil {
		return done, err
	}
	return m.End(ctx, a.Requests)
}

// wait waits until the last of n requests is answered, which is asked often since it costs little,
// and then until the signer's counter says that all are. A scrape costs the signer more than an
// answer where it has metrics of 10 000 certificates.
func (of asked) wait(ctx context.Context, p *measure.Process, n, total int) error {
	if err := p.Wait(ctx, "answer to the last request", func() (time.Duration, bool) {
		answered, err := of.answered(ctx, n-1)
		return 20 * time.Millisecond, err == nil && answered
	}); err != nil {
		return err
	}
	return p.Wait(ctx, fmt.Sprintf("%s of %d", of.counter, total), func() (time.Duration, bool) {
		m, err := p.Scrape()
		return 100 * time.Millisecond, err == nil && m.Sum(of.counter) >= float64(total)
	})
}
