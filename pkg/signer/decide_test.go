package signer

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// row is one line of the specification of Decide: a scene with a valid certificate and one
// change, and the decision.
type row struct {
	name    string
	change  func(w *scene)
	action  Action
	reason  Reason // why a certificate is issued
	message string // part of the message
	verdict Reason // of the Problem
}

// specify checks the decision for each row's scene. Before the change, Service web requests and
// owns Secret web-tls, whose certificate is valid.
func specify(t *testing.T, ca *pki.Authority, rows []row) {
	web := service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			w := newScene(ca, managed(issued, web), web.DeepCopy())
			r.change(w)
			_, d := w.decide()
			assert.Equal(t, r.action.String(), d.Action.String())
			assert.Equal(t, r.reason, d.Reason)
			assert.Contains(t, d.Message+d.Problem.Message, r.message)
			assert.Equal(t, r.verdict, d.Problem.Reason)
		})
	}
}

// String makes failures readable.
func (a Action) String() string {
	return [...]string{"Nothing", "ReadLive", "Create", "Reissue", "Replace", "Repair"}[a]
}

func TestDecideByRequesters(t *testing.T) {
	deleted := metav1.NewTime(epoch)
	reports := func(secret string) func(w *scene) {
		return func(w *scene) {
			s, d := w.decide()
			s.Key.Name = secret
			w.secret, w.services[0].Status.Conditions = nil, applied{Situation: s, d: d, leaf: d.Leaf}.memberCondition(w.services[0]).Both()
		}
	}
	specify(t, testCA(t), []row{
		{name: "one Service, all is well", change: func(*scene) {}},
		{name: "no Secret", action: Create, reason: reasonFirst, message: "does not exist",
			change: func(w *scene) { w.secret = nil }},
		{name: "no Secret, and the condition names it", action: Create, reason: reasonMissing, change: reports("web-tls")},
		{name: "no Secret, and the condition names another", action: Create, reason: reasonFirst, change: reports("old-tls")},
		{name: "no Secret, namespace not opted in",
			change: func(w *scene) { w.secret, w.notOptedIn = nil, true }},
		{name: "no Secret, namespace being deleted",
			change: func(w *scene) { w.secret, w.terminating = nil, true }},
		{name: "no Secret, Service being deleted",
			change: func(w *scene) { w.secret, w.services[0].DeletionTimestamp = nil, &deleted }},
		{name: "no Secret, what is asked for is not allowed",
			change: func(w *scene) { w.secret, w.services[0] = nil, service("web", api.AnnotationDuration, "abc") }},
		{name: "no Secret, one of two asks for what is not allowed", action: Create, reason: reasonFirst,
			change: func(w *scene) {
				w.secret = nil
				w.services = append(w.services, service("api", api.AnnotationKeyAlgorithm, "DSA"))
			}},
		{name: "Secret being deleted",
			change: func(w *scene) { w.secret.DeletionTimestamp = &deleted }},
		{name: "another Service joins", action: Reissue, reason: reasonNames,
			message: "the certificate is for web.shop.svc, web.shop.svc.cluster.local, must be for api.shop.svc, api.shop.svc.cluster.local, web.shop.svc, web.shop.svc.cluster.local",
			change:  func(w *scene) { w.services = append(w.services, service("api")) }},
		{name: "another Service is refused", change: func(w *scene) {
			w.services = append(w.services, service("api", api.AnnotationDuration, "3h"))
			w.services[1].CreationTimestamp = metav1.NewTime(epoch)
		}},
	})
}

func TestDecideWhoseItIs(t *testing.T) {
	ca, other := testCA(t), testCA(t)
	web := service("web")
	foreign := issueBy(t, other, wantedBy(web), epoch)
	stale := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "of-the-one-before"}
	unlabel := func(w *scene) { w.secret.Labels = nil }
	disown := func(w *scene) { w.secret.OwnerReferences = nil }
	use := func(i issue.Issued) func(w *scene) {
		return func(w *scene) {
			w.secret.Data = map[string][]byte{corev1.TLSCertKey: i.CertPEM, corev1.TLSPrivateKeyKey: i.KeyPEM}
		}
	}
	all := func(changes ...func(*scene)) func(*scene) {
		return func(w *scene) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	specify(t, ca, []row{
		{name: "no mark, our leaf", verdict: reasonConflict, change: all(unlabel, disown)},
		{name: "no mark, a leaf of another CA", verdict: reasonConflict, change: all(unlabel, disown, use(foreign))},
		{name: "no mark, no data", verdict: reasonConflict, change: all(unlabel, disown, use(issue.Issued{}))},
		{name: "label of another instance", verdict: reasonConflict,
			change: all(disown, func(w *scene) { w.secret.Labels[api.LabelManagedBy] = "another" })},

		{name: "label, our leaf", action: Repair, change: disown},
		{name: "label, a leaf of another CA", verdict: reasonConflict, message: "it has this signer's label, but none of the Services owns it", change: all(disown, use(foreign))},
		{name: "label, garbage", verdict: reasonConflict, change: all(disown, use(issue.Issued{CertPEM: []byte("x"), KeyPEM: []byte("x")}))},
		{name: "label, no data", action: Reissue, reason: reasonEmpty, change: all(disown, use(issue.Issued{}))},
		{name: "label, no data but under other keys", verdict: reasonConflict,
			change: all(disown, use(issue.Issued{}), func(w *scene) { w.secret.Data["password"] = []byte("x") })},

		{name: "owner, our leaf", action: Repair, change: unlabel},
		{name: "owner, a leaf of another CA", verdict: reasonConflict, message: noLabel, change: all(unlabel, use(foreign))},
		{name: "owner, garbage", verdict: reasonConflict, change: all(unlabel, use(issue.Issued{CertPEM: []byte("x"), KeyPEM: []byte("x")}))},
		{name: "owner, no data", action: Reissue, reason: reasonEmpty, change: all(unlabel, use(issue.Issued{}))},
		{name: "owner, no data but under other keys", verdict: reasonConflict,
			change: all(unlabel, use(issue.Issued{}), func(w *scene) { w.secret.Data["password"] = []byte("x") })},

		{name: "owner of the Service before, label, our leaf", action: Repair,
			change: func(w *scene) { w.secret.OwnerReferences = []metav1.OwnerReference{stale} }},
		{name: "owner of the Service before, our leaf", action: Repair,
			change: all(unlabel, func(w *scene) { w.secret.OwnerReferences = []metav1.OwnerReference{stale} })},
		{name: "owner of the Service before, label, a leaf of another CA", verdict: reasonConflict,
			change: all(use(foreign), func(w *scene) { w.secret.OwnerReferences = []metav1.OwnerReference{stale} })},
		{name: "owner of another kind", verdict: reasonConflict,
			change: all(unlabel, func(w *scene) { w.secret.OwnerReferences[0].Kind = "Ingress" })},

		{name: "label and owner, a leaf of another CA", action: Reissue, reason: reasonOtherCA, change: use(foreign)},
		{name: "label and owner, garbage", action: Reissue, reason: reasonGarbage, change: use(issue.Issued{CertPEM: []byte("x"), KeyPEM: []byte("x")})},
		{name: "label and owner, no data but under other keys", action: Reissue, reason: reasonEmpty,
			change: all(use(issue.Issued{}), func(w *scene) { w.secret.Data["password"] = []byte("x") })},
		{name: "all three, of another type", verdict: reasonConflict,
			change: func(w *scene) { w.secret.Type = corev1.SecretTypeOpaque }},
	})
}

func TestDecideByCause(t *testing.T) {
	ca := testCA(t)
	web := service("web")
	good, other := issueBy(t, ca, wantedBy(web), epoch), issueBy(t, ca, wantedBy(web), epoch)
	forged := issueBy(t, forge(t, ca), wantedBy(web), epoch)
	client := signed(t, ca, func(c *x509.Certificate, _ *pki.Authority) {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	})
	set := func(key string, value []byte) func(w *scene) {
		return func(w *scene) { w.secret.Data[key] = value }
	}
	use := func(i issue.Issued) func(w *scene) {
		return func(w *scene) {
			w.secret.Data[corev1.TLSCertKey], w.secret.Data[corev1.TLSPrivateKeyKey] = i.CertPEM, i.KeyPEM
			w.secret.Annotations = managed(i).Annotations
		}
	}
	yes := true
	immutable := func(change func(w *scene)) func(w *scene) {
		return func(w *scene) { w.secret.Immutable = &yes; change(w) }
	}
	at := func(now time.Time) func(w *scene) { return func(w *scene) { w.now = now } }
	due := pki.RenewAt(good.Leaf)
	asks := func(annotations ...string) func(w *scene) {
		return func(w *scene) { w.services[0] = service("web", annotations...) }
	}
	headless := func(w *scene) { w.services[0].Spec.ClusterIP = corev1.ClusterIPNone }
	specify(t, ca, []row{
		{name: "no key", action: Reissue, reason: reasonKeyMissing, change: set(corev1.TLSPrivateKeyKey, nil)},
		{name: "no certificate", action: Reissue, reason: reasonKeyMissing, change: set(corev1.TLSCertKey, nil)},
		{name: "neither", action: Reissue, reason: reasonEmpty, change: use(issue.Issued{})},
		{name: "garbage", action: Reissue, reason: reasonGarbage, change: set(corev1.TLSCertKey, []byte("x"))},
		{name: "key of another", action: Reissue, reason: reasonMismatch, change: set(corev1.TLSPrivateKeyKey, other.KeyPEM)},
		{name: "forged: same issuer and key id", action: Reissue, reason: reasonOtherCA, message: "not signed by this CA", change: use(forged)},
		{name: "root served with it", action: Reissue, reason: reasonChainChanged, message: "not that of this CA, which has 0 certificates",
			change: use(issue.Issued{CertPEM: pki.EncodeCertificates(good.Leaf, ca.Certificate), KeyPEM: good.KeyPEM})},

		{name: "for clients too, by our CA", action: Reissue, reason: reasonWrongUsage, message: "not a serving certificate: its extended key usages are", change: use(client)},

		{name: "a moment before it is due", change: func(w *scene) { use(good)(w); at(due.Add(-1))(w) }},
		{name: "due", action: Reissue, reason: reasonDue, message: due.Format(time.RFC3339), change: func(w *scene) { use(good)(w); at(due)(w) }},
		{name: "expired", action: Reissue, reason: reasonExpired, change: at(epoch.Add(31 * day))},
		{name: "issued by a clock that was ahead", action: Reissue, reason: reasonNotYetValid, message: "not valid before " + good.Leaf.NotBefore.Format(time.RFC3339),
			change: func(w *scene) { use(good)(w); at(good.Leaf.NotBefore.Add(-1))(w) }},
		{name: "valid from now on", change: func(w *scene) { use(good)(w); at(good.Leaf.NotBefore)(w) }},

		{name: "headless now", action: Reissue, reason: reasonNames, message: "*.web.shop.svc", change: headless},
		{name: "extra name", action: Reissue, reason: reasonNames, change: asks(api.AnnotationExtraDNSNames, "a.web.shop.svc")},
		{name: "another algorithm", action: Reissue, reason: reasonAlgorithm, message: "the key is ECDSAP256, must be RSA2048", change: asks(api.AnnotationKeyAlgorithm, "RSA2048")},
		{name: "another lifetime", action: Reissue, reason: reasonDuration, message: "lifetime is 720h0m0s, must be 48h0m0s", change: asks(api.AnnotationDuration, "48h")},
		{name: "the defaults said aloud", change: asks(api.AnnotationKeyAlgorithm, "ECDSAP256", api.AnnotationDuration, "720h")},
		{name: "renewal asked for, and issued before", action: Reissue, reason: reasonRequested,
			change: func(w *scene) { asks(api.AnnotationRenewAfter, "2026-03-01T12:00:01Z")(w); at(epoch.Add(time.Hour))(w) }},
		{name: "renewal asked for, and issued since", change: asks(api.AnnotationRenewAfter, "2026-03-01T12:00:00Z")},
		{name: "renewal asked for, later", change: asks(api.AnnotationRenewAfter, "2026-03-01T12:00:01Z")},

		{name: "extra keys", action: Repair, change: set("ca.crt", []byte("x"))},
		{name: "immutable, all is well", change: immutable(func(*scene) {})},
		{name: "immutable, due", action: Replace, reason: reasonDue, change: immutable(func(w *scene) { use(good)(w); at(due)(w) })},
		{name: "immutable, owner missing", action: Repair, change: immutable(func(w *scene) { w.secret.OwnerReferences = nil })},
		{name: "too many extra keys", action: Replace, reason: reasonGarbage, message: "data under more than 64 other keys", change: func(w *scene) {
			for i := range 5000 {
				w.secret.Data[fmt.Sprint("k", i)] = []byte("x")
			}
		}},
		{name: "immutable, extra keys", action: Replace, reason: reasonGarbage, message: `"ca.crt"`, change: immutable(set("ca.crt", []byte("x")))},
	})
}

// signed returns a pair that this CA signed but would not have issued.
func signed(t *testing.T, ca *pki.Authority, change func(*x509.Certificate, *pki.Authority)) issue.Issued {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	wanted := wantedBy(service("web"))
	leaf, err := plainSign(change)(t.Context(), ca, issue.SigningRequest{
		CSR:      issue.EncodeCSR(signertest.CSR(t, key)),
		DNSNames: wanted.DNSNames, KeyAlgorithm: wanted.Params.KeyAlgorithm,
		NotBefore: pki.NotBefore(epoch), NotAfter: pki.NotBefore(epoch).Add(wanted.Params.Duration),
	})
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return issue.Issued{Leaf: leaf, CertPEM: pki.EncodeCertificates(leaf), KeyPEM: keyPEM}
}

func TestDecideClusterIPs(t *testing.T) {
	limits := api.DefaultLimits()
	limits.PermitClusterIPs = true
	ca := newCA(t, limits.Constraints(), epoch.Add(-day), epoch.Add(1000*day))
	asks := service("web", api.AnnotationClusterIPs, "true")
	w := newScene(ca, managed(issueBy(t, ca, wantedBy(service("web")), epoch), asks), asks)
	w.limits = limits
	for _, ips := range [][]string{{"10.0.0.1"}, {"10.0.0.1", "fd00::1"}, {"10.0.0.2"}} {
		asks.Spec.ClusterIPs = ips
		s, d := w.decide()
		require.Equal(t, reasonNames, d.Reason)
		assert.Contains(t, d.Message, ips[0])
		w.apply(t, s, d, plainSign())
		_, d = w.decide()
		require.Equal(t, Nothing, d.Action)
	}

	// Without the label it keeps the address that its certificate has, and gets no other.
	sit, d := w.decide()
	asks.Status.Conditions = applied{Situation: sit, d: d, leaf: d.Leaf}.memberCondition(asks).Both()
	w.notOptedIn = true
	_, d = w.decide()
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.2")}, d.Wanted.IPs)
	asks.Spec.ClusterIPs = []string{"10.0.0.3"}
	_, d = w.decide()
	assert.Empty(t, d.Wanted.IPs)
}

func TestDecideUnderACAThatCannotSign(t *testing.T) {
	lost := func(w *scene) { w.caErr = caError("CALost") }
	specify(t, testCA(t), []row{
		{name: "all is well", verdict: "CALost", change: lost},
		{name: "no Secret", verdict: "CALost", change: func(w *scene) { lost(w); w.secret = nil }},
		{name: "due", verdict: "CALost", change: func(w *scene) { lost(w); w.now = epoch.Add(40 * day) }},
		{name: "somebody else's Secret", verdict: "CALost", change: func(w *scene) { lost(w); w.secret.Labels = nil }},
		{name: "nobody asks", change: func(w *scene) { lost(w); w.services, w.secret = nil, nil }},
		{name: "without a reason", verdict: reasonUnavailable, change: func(w *scene) { w.caErr = assert.AnError }},
		{name: "about to be known", change: func(w *scene) { w.caErr, w.secret = caError(reasonPending), nil }},
	})
	w := newScene(testCA(t), nil, service("web"))
	w.caErr = caError(reasonPending)
	_, d := w.decide()
	assert.Equal(t, epoch.Add(CARetry), d.NextAt)
}

func TestDecideOwnersAreTheParticipantsAndForeignOwners(t *testing.T) {
	ca, web, api2 := testCA(t), service("web"), service("api")
	secret := managed(issueBy(t, ca, wantedBy(web), epoch), web, service("gone"))
	another := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d"}
	secret.OwnerReferences = append(secret.OwnerReferences, another)
	w := newScene(ca, secret, web, api2)
	_, d := w.decide()
	require.Equal(t, Reissue, d.Action)
	no := false
	assert.Equal(t, []metav1.OwnerReference{
		another,
		{APIVersion: "v1", Kind: "Service", Name: "api", UID: api2.UID, BlockOwnerDeletion: &no},
		{APIVersion: "v1", Kind: "Service", Name: "web", UID: web.UID, BlockOwnerDeletion: &no},
	}, d.Content.Owners)
}

func TestDecideWhenToReconcileAgain(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	w := newScene(ca, managed(issued, web), web)
	_, d := w.decide()
	assert.Equal(t, pki.RenewAt(issued.Leaf), d.NextAt)
	assert.Equal(t, pki.Fingerprint(issued.Leaf), d.Leaf)

	w.services[0] = service("web", api.AnnotationRenewAfter, "2026-03-02T00:00:00Z")
	_, d = w.decide()
	assert.Equal(t, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), d.NextAt, "a renewal that is asked for comes earlier")

	w.services[0] = service("web", api.AnnotationRenewAfter, "2027-01-01T00:00:00Z")
	_, d = w.decide()
	assert.Equal(t, pki.RenewAt(issued.Leaf), d.NextAt, "or not")
}

// A certificate that ends with its CA is not renewed: a new one could not end later, and would be
// due again at once.
func TestDecideNearTheEndOfTheCA(t *testing.T) {
	web := service("web")
	for _, left := range []time.Duration{20 * day, day, time.Hour, 10 * time.Minute, 5 * time.Minute, time.Minute, time.Second} {
		ca := newCA(t, clusterNames, epoch.Add(-1000*day), epoch.Add(left))
		issued := issueBy(t, ca, wantedBy(web), epoch)
		require.Equal(t, ca.Certificate.NotAfter, issued.Leaf.NotAfter)
		w := newScene(ca, managed(issued, web), web)
		for _, later := range []time.Duration{0, (left - time.Second) / 2, left - time.Second} {
			w.now = epoch.Add(later)
			_, d := w.decide()
			require.Equal(t, Nothing, d.Action, "%s before the CA's end, %s later: %s %s", left, later, d.Reason, d.Message)
			require.Empty(t, d.Reason)
			require.True(t, d.NextAt.IsZero() || d.NextAt.After(w.now), "and no busy waiting: %s", d.NextAt)
		}
	}
}
