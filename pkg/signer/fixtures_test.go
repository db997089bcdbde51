package signer

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// What the tests of several packages start from.
var (
	epoch        = signertest.Epoch
	clusterNames = signertest.ClusterNames
	newCA        = signertest.NewCA
	testCA       = signertest.CA
	forge        = signertest.Forge
	service      = signertest.Service
	wantedBy     = signertest.WantedBy
	newLadder    = signertest.NewLadder
	generations  = signertest.Generations
)

type ladder = signertest.Ladder

const day = signertest.Day

// plainSign signs the request with crypto/x509 only, changed by the given functions.
func plainSign(change ...signertest.Change) issue.Sign {
	return func(_ context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		return signertest.Sign(ca, signertest.Request(request), change...)
	}
}

// issueBy makes the pair that ca gives at a time.
func issueBy(t require.TestingT, ca *pki.Authority, wanted api.Wanted, at time.Time) issue.Issued {
	issued, err := issue.Issue(context.Background(), plainSign(), ca, wanted, at)
	require.NoError(t, err)
	return issued
}

// managed returns Secret web-tls as the signer creates it for the owners.
func managed(issued issue.Issued, owners ...*corev1.Service) *corev1.Secret {
	var written map[string]string
	if issued.Leaf != nil {
		written = map[string]string{api.AnnotationIssuedLeaf: pki.Fingerprint(issued.Leaf)}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-tls", UID: "uid-of-secret", ResourceVersion: "100",
			Labels:          map[string]string{api.LabelManagedBy: api.DefaultInstance},
			Annotations:     written,
			OwnerReferences: ownerReferences(nil, owners),
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM},
	}
}

// scene is the state of a namespace in the API server. Its Situation is as the controller
// gathers it.
type scene struct {
	now         time.Time
	notOptedIn  bool
	terminating bool
	services    []*corev1.Service
	secret      *corev1.Secret
	ca          *pki.Authority
	caErr       error
	limits      api.Limits
	former      []string // cluster domains
	openShift   bool
}

func newScene(ca *pki.Authority, secret *corev1.Secret, services ...*corev1.Service) *scene {
	return &scene{now: epoch, services: services, secret: secret, ca: ca, limits: api.DefaultLimits()}
}

func (w *scene) situation() Situation {
	s := Situation{
		Now: w.now, Key: types.NamespacedName{Namespace: "shop", Name: "web-tls"},
		OptedIn: !w.notOptedIn, Terminating: w.terminating,
		Limits: w.limits, Authority: w.ca, AuthorityErr: w.caErr,
		Kept: map[types.UID]Kept{}, Instance: api.DefaultInstance,
	}
	s.Limits.FormerDomains, s.OpenShift = w.former, w.openShift
	if w.ca != nil {
		s.Bundle = w.ca.Bundle
	}
	if w.caErr != nil {
		s.Authority = nil
	}
	switch {
	case w.secret == nil:
	case w.secret.Labels[api.LabelManagedBy] == api.DefaultInstance:
		s.Secret = FactsOf(w.secret, api.DefaultInstance)
	default:
		s.Unmanaged = &w.secret.ObjectMeta
	}
	for _, svc := range w.services {
		if w.openShift {
			svc = api.Translate(svc)
		}
		switch name, asks := api.Wants(svc); {
		case svc.DeletionTimestamp != nil:
		case asks && name == s.Key.Name:
			s.Requesters = append(s.Requesters, svc)
		case s.Secret != nil && s.Secret.OwnedBy(svc.UID):
			s.Owners = append(s.Owners, svc)
		}
	}
	return s
}

// decide decides, and reads the Secret live if that is the decision, as Reconcile does.
func (w *scene) decide() (Situation, Decision) {
	s := w.situation()
	d := Decide(s, OwnershipOf(s))
	if d.Action == ReadLive && d.External {
		s.External = ExternalOf(w.secret, api.DefaultInstance, nil, s.Bundle, w.now.Add(-externalGrace))
		d = Decide(s, OwnershipOf(s))
	} else if d.Action == ReadLive {
		s.Secret, s.Unmanaged = FactsOf(w.secret, api.DefaultInstance), nil
		d = Decide(s, OwnershipOf(s))
	}
	return s, d
}

// apply carries out the decision on the scene, which is a model of the API server.
func (w *scene) apply(t require.TestingT, s Situation, d Decision, sign issue.Sign) {
	var issued *issue.Issued
	if d.Action == Create || d.Action == Reissue || d.Action == Replace {
		i, err := issue.Issue(context.Background(), sign, s.Authority, d.Wanted, w.now)
		require.NoError(t, err)
		issued = &i
	}
	w.write(t, s, d, issued)
}

// write carries out the decision with the issued certificate.
func (w *scene) write(t require.TestingT, s Situation, d Decision, issued *issue.Issued) {
	content := d.Content
	if issued != nil {
		content = withIssued(t, s, d, *issued)
	}
	switch d.Action {
	case Nothing:
		return
	case Create:
		require.Nil(t, w.secret, "the API server refuses to create what exists")
		w.secret = created(content.Secret(s.Key, nil))
	case Replace:
		w.secret = created(content.Secret(s.Key, w.secret))
	case Reissue, Repair:
		if content.NeedsPair(s.Secret) {
			var err error
			content, err = content.WithPair(w.secret)
			require.NoError(t, err)
		}
		w.secret = patched(t, w.secret, content.Patch(s.Secret))
	}
}

// withIssued returns the desired content with the issued pair.
func withIssued(t require.TestingT, s Situation, d Decision, issued issue.Issued) Content {
	content, err := d.With(s, issued)
	require.NoError(t, err)
	return content
}

// created returns the Secret in the API server's response.
func created(secret *corev1.Secret) *corev1.Secret {
	secret.UID, secret.ResourceVersion = "uid-of-secret", "100"
	return secret
}

// patched applies a merge patch (RFC 7386) as the API server does: on the object
// with the UID and resource version that the patch names, or not at all.
func patched(t require.TestingT, secret *corev1.Secret, patch map[string]any) *corev1.Secret {
	document, err := json.Marshal(secret)
	require.NoError(t, err)
	body, err := json.Marshal(patch)
	require.NoError(t, err)
	var head struct {
		Metadata struct{ UID, ResourceVersion string } `json:"metadata"`
		Data     map[string]any                        `json:"data"`
	}
	require.NoError(t, json.Unmarshal(body, &head))
	require.Equal(t, string(secret.UID), head.Metadata.UID)
	require.Equal(t, secret.ResourceVersion, head.Metadata.ResourceVersion)
	if secret.Immutable != nil && *secret.Immutable {
		require.Empty(t, head.Data, "the API server refuses to change an immutable Secret's data")
	}
	merged, err := evanphx.MergePatch(document, body)
	require.NoError(t, err)
	out := &corev1.Secret{}
	require.NoError(t, json.Unmarshal(merged, out))
	version, err := strconv.Atoi(secret.ResourceVersion)
	require.NoError(t, err)
	out.ResourceVersion = fmt.Sprint(version + 1)
	return out
}

// caError is the error of a CA that cannot sign, with a reason.
type caError string

func (e caError) Error() string  { return string(e) + ": for a test" }
func (e caError) Reason() string { return string(e) }
