package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// grantRequests lets the ServiceAccounts of a namespace make CertificateSigningRequests.
func (w *world) grantRequests(ctx context.Context, namespace string) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "requesters"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"},
	}}}
	if _, err := w.Clientset.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err := w.Clientset.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "requesters-" + namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + namespace}},
	}, metav1.CreateOptions{})
	return err
}

// waitingCSRs: 500 requests of a pod wait for eight Services each, of which one changes all the
// time and never selects the pod. Two more a second, for 100 names of no Service, are denied.
func waitingCSRs(ctx context.Context, a *attacker) {
	const n, changing, owners = 500, 5, 8
	pod, err := a.asPod(ctx)
	if !a.count(ctx, err) {
		return
	}
	a.createServices(ctx, changing, map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)})
	for i := range n {
		names := []string{fmt.Sprintf("%s.%s.svc", a.nth(i, changing), a.namespace)}
		for j := 1; j < owners; j++ {
			names = append(names, fmt.Sprintf("%s-not-there-%d.%s.svc", a.name, j, a.namespace))
		}
		a.count(ctx, a.request(ctx, pod, names))
	}
	strange := make([]string, api.MaxNames)
	for i := range strange {
		strange[i] = fmt.Sprintf("n%d.strange.example.com", i)
	}
	a.repeat(ctx, 20*time.Millisecond, func(i int) error {
		if i%25 == 0 {
			return a.request(ctx, pod, strange)
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": map[string]string{"app": fmt.Sprint("nothing-", i)}}})
		if err != nil {
			return err
		}
		_, err = a.services().Patch(ctx, a.nth(i, changing), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// asPod is a client with a token of a pod of the attacker.
func (a *attacker) asPod(ctx context.Context) (kubernetes.Interface, error) {
	pod, err := a.pods().Create(ctx, passing(podOf(a.name, a.name, evilPort)), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	bound := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	token, err := a.clientset.CoreV1().ServiceAccounts(a.namespace).CreateToken(ctx, "default", bound, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(a.config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return kubernetes.NewForConfig(config)
}

// request makes a CertificateSigningRequest for the names, with a key of its own.
func (a *attacker) request(ctx context.Context, as kubernetes.Interface, names []string) error {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return err
	}
	_, err = as.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: a.name + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: api.SignerName, Request: issue.EncodeCSR(der),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	return err
}
