package signer_test

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// A Service requests a Secret that does not exist: the result with a CA, and without one.
func ExampleDecide() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		panic(err)
	}
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}, now, now.AddDate(3, 0, 0))
	if err != nil {
		panic(err)
	}
	situation := signer.Situation{
		Now: now, Key: types.NamespacedName{Namespace: "shop", Name: "web-tls"}, OptedIn: true,
		Requesters: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "1", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"},
		}}},
		Instance: api.DefaultInstance, Limits: api.DefaultLimits(),
		Authority: &pki.Authority{
			Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), SignUntil: root.NotAfter,
		},
	}
	situation.Authority.Anchors = situation.Authority.Bundle.Certificates()
	decision := signer.Decide(situation, signer.OwnershipOf(situation))
	fmt.Println(decision.Issues(), decision.Reason, decision.Wanted.DNSNames)

	situation.Authority, situation.AuthorityErr = nil, errors.New("the CA is lost")
	decision = signer.Decide(situation, signer.OwnershipOf(situation))
	fmt.Println(decision.Issues(), decision.Problem.Reason)
	// Output:
	// true FirstIssue [web.shop.svc web.shop.svc.cluster.local]
	// false CAUnavailable
}
