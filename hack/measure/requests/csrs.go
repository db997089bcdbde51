package requests

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"strconv"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// makeCSR makes a CertificateSigningRequest as the pod.
func (a *asking) makeCSR(ctx context.Context, name, signerName string) error {
	_, err := a.pod.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: a.csr}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	return err
}

// csrFloor approves and signs CertificateSigningRequests, and returns how many a second.
func (a *asking) csrFloor(ctx context.Context) (done measure.Phase, err error) {
	name := func(i int) string { return "floor-" + strconv.Itoa(i) }
	if err := a.each(ctx, a.Requests, func(ctx context.Context, i int) error { return a.makeCSR(ctx, name(i), nobodys) }); err != nil {
		return done, err
	}
	leaf, err := a.leaf()
	if err != nil {
		return done, err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"certificate": pki.EncodeCertificates(leaf)}})
	if err != nil {
		return done, err
	}
	requests := a.Client.CertificatesV1().CertificateSigningRequests()
	m, err := a.Begin(ctx, nil)
	if err != nil {
		return done, err
	}
	err = a.each(ctx, a.Requests, func(ctx context.Context, i int) error {
		o, err := requests.Get(ctx, name(i), metav1.GetOptions{}) // an approval is of the whole object
		if err != nil {
			return err
		}
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Permitted", Message: "the requester may have all names that it asks for",
		})
		if _, err := requests.UpdateApproval(ctx, o.Name, o, metav1.UpdateOptions{}); err != nil {
			return err
		}
		_, err = requests.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return done, err
	}
	return m.End(ctx, a.Requests)
}

// answerCSRs has the signer answer CertificateSigningRequests that were there before it, and
// then as many more. One pod asks for all of them, so there is no limit for one.
func (a *asking) answerCSRs(ctx context.Context, r *Answered) error {
	of := func(prefix string) asked {
		return asked{
			ask: func(ctx context.Context, i int) error { return a.makeCSR(ctx, prefix+strconv.Itoa(i), api.SignerName) },
			answered: func(ctx context.Context, i int) (bool, error) {
				o, err := a.Client.CertificatesV1().CertificateSigningRequests().Get(ctx, prefix+strconv.Itoa(i), metav1.GetOptions{})
				return err == nil && len(o.Status.Certificate) > 0, err
			},
			counter: "servingcert_csr_issued_total",
		}
	}
	first := of("web-")
	if err := a.each(ctx, a.Requests, first.ask); err != nil {
		return err
	}
	p, err := a.startSigner(ctx, "--secret-issue-burst=0", "--namespace-reissue-burst=0", "--leader-elect=false")
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := first.wait(ctx, p, a.Requests, a.Requests); err != nil {
		return err
	}
	if r.CSRs, err = p.Usage(); err != nil {
		return err
	}
	r.CSRs.N = a.Requests
	if r.CSRsRunning, err = a.answerAtOnce(ctx, p, of("more-")); err != nil {
		return err
	}
	return p.Stop()
}
