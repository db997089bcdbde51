package controller

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// actionIssue is the action of every event.
const actionIssue = "Issue"

// say emits an event on a request that has no certificate, unless it was the last thing
// said of it. Events on objects without a namespace are in namespace default.
func (c *Controller) say(r *csr.Request, reason, message string) {
	if !c.said.First(r.UID, reason+" "+message) {
		return
	}
	regarding := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion},
	}
	c.events.Eventf(regarding, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", signer.EventNote(message))
}
