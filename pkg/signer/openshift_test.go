package signer

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// inOpenShiftWords returns a Service that requests web-tls with the annotation.
func inOpenShiftWords(name, word string, annotations ...string) *corev1.Service {
	return service(name, append([]string{api.AnnotationSecretName, "-", word, "web-tls"}, annotations...)...)
}

// openShiftScene is a namespace without our label, in a signer with
// --openshift-compat.
func openShiftScene(t require.TestingT, services ...*corev1.Service) *scene {
	w := newScene(testCA(t), nil, services...)
	w.notOptedIn, w.openShift = true, true
	return w
}

func TestOpenShiftWordsAskInEveryNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		svc     *corev1.Service
		label   bool
		compat  bool
		created bool
	}{
		"beta":                            {inOpenShiftWords("web", api.OpenShiftSecretName), false, true, true},
		"alpha":                           {inOpenShiftWords("web", api.OpenShiftSecretNameAlpha), false, true, true},
		"beta, labelled":                  {inOpenShiftWords("web", api.OpenShiftSecretName), true, true, true},
		"without the flag":                {inOpenShiftWords("web", api.OpenShiftSecretName), false, false, false},
		"without the flag, labelled":      {inOpenShiftWords("web", api.OpenShiftSecretName), true, false, false},
		"ours win, and need the label":    {service("web", api.OpenShiftSecretName, "web-tls"), false, true, false},
		"ours win":                        {service("web", api.OpenShiftSecretName, "other-tls"), true, true, true},
		"ours alone need the label still": {service("web"), false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(testCA(t), nil, c.svc)
			w.notOptedIn, w.openShift = !c.label, c.compat
			_, d := w.decide()
			assert.Equal(t, c.created, d.Action == Create)
		})
	}
}

func TestOpenShiftAnnotationsOfASecret(t *testing.T) {
	for word, want := range map[string][]string{
		api.OpenShiftSecretName:      {api.OpenShiftServiceName, api.OpenShiftServiceUID},
		api.OpenShiftSecretNameAlpha: {api.OpenShiftServiceNameAlpha, api.OpenShiftServiceUIDAlpha},
	} {
		t.Run(word, func(t *testing.T) {
			w := openShiftScene(t, inOpenShiftWords("web", word))
			holds := func() {
				t.Helper()
				s, d := w.decide()
				require.Equal(t, Nothing.String(), d.Action.String(), "%s", d.Message)
				ends := s.Secret.Leaf.NotAfter.Format(time.RFC3339)
				require.True(t, strings.HasSuffix(ends, "Z"))
				require.Equal(t, map[string]string{
					want[0]: "web", want[1]: "uid-of-web", api.OpenShiftExpiry: ends, api.OpenShiftExpiryAlpha: ends, "team": "shop",
					api.AnnotationIssuedLeaf: s.Secret.Leaf.Fingerprint,
				}, w.secret.Annotations)
			}
			act := func(action Action) Decision {
				t.Helper()
				s, d := w.decide()
				require.Equal(t, action.String(), d.Action.String(), "%s", d.Message)
				w.apply(t, s, d, plainSign())
				return d
			}
			act(Create)
			w.secret.Annotations["team"] = "shop"
			holds()

			first := w.secret.Data[corev1.TLSCertKey]
			w.now = FactsOf(w.secret, api.DefaultInstance).Leaf.RenewAt
			require.Equal(t, reasonDue, act(Reissue).Reason)
			holds()

			renewed := w.secret.Data[corev1.TLSCertKey]
			require.NotEqual(t, first, renewed)
			for key := range w.secret.Annotations {
				if key == "team" {
					continue
				}
				w.secret.Annotations[key] = "2000-01-01T00:00:00Z"
				act(Repair)
				holds()
				delete(w.secret.Annotations, key)
				act(Repair)
				holds()
			}
			require.Equal(t, renewed, w.secret.Data[corev1.TLSCertKey], "no certificate is made anew for an annotation's sake")

			yes := true
			w.secret.Immutable, w.secret.Data[corev1.TLSPrivateKeyKey] = &yes, nil
			act(Replace)
			holds()
			w.secret.Immutable = &yes
			delete(w.secret.Annotations, api.OpenShiftExpiry)
			act(Repair)
			holds()

			w.services[0], w.notOptedIn = service("web"), false
			act(Repair)
			delete(w.secret.Annotations, api.AnnotationIssuedLeaf)
			require.Equal(t, map[string]string{"team": "shop"}, w.secret.Annotations, "asked for in our words: they would soon say what is not so")
		})
	}
}

func TestAnnotationsOfTheSecretAreRestored(t *testing.T) {
	w := openShiftScene(t, inOpenShiftWords("web", api.OpenShiftSecretName))
	s, d := w.decide()
	issued, err := issue.Issue(t.Context(), plainSign(), s.Authority, d.Wanted, w.now)
	require.NoError(t, err)
	w.write(t, s, d, &issued)
	there := func() map[string]string { return FactsOf(w.secret, api.DefaultInstance).Annotations }
	assert.Len(t, there(), 5)

	w.secret.Annotations = nil
	s, d = w.decide()
	w.write(t, s, d, nil)
	assert.Len(t, there(), 5)

	w.openShift = false
	_, d = w.decide()
	assert.Equal(t, Nothing.String(), d.Action.String())
}

// tell writes the annotations of a Service after the decision is carried out, and returns the number
// of changes.
func tell(s Situation, d Decision, svc *corev1.Service) (written int) {
	svc = api.Translate(svc)
	for _, status := range conditions(s, d) {
		if status.Service.UID != svc.UID {
			continue
		}
		for key, value := range status.Annotations {
			if value == nil {
				delete(svc.Annotations, key)
			} else {
				svc.Annotations[key] = fmt.Sprint(value)
			}
		}
		written += len(status.Annotations)
	}
	return written
}

func TestOpenShiftAnnotationsOfAService(t *testing.T) {
	web := inOpenShiftWords("web", api.OpenShiftSecretName, api.AnnotationDuration, "abc")
	w := openShiftScene(t, web)
	words := func() map[string]string {
		s, d := w.decide()
		// The condition is what the API server has; the words go with it.
		for _, status := range conditions(s, d) {
			web.Status.Conditions = status.Ready.Both()
		}
		before := maps.Clone(web.Annotations)
		translated := api.Translate(web)
		tell(s, d, translated)
		web.Annotations = maps.Clone(translated.Annotations)
		maps.DeleteFunc(web.Annotations, func(key, _ string) bool { // what Translate added
			return key == api.AnnotationSecretName || len(validation.IsQualifiedName(key)) > 0
		})
		require.Equal(t, before[api.OpenShiftSecretName], web.Annotations[api.OpenShiftSecretName])
		again, d2 := w.decide()
		require.Zero(t, tell(again, d2, api.Translate(web)), "once is enough")
		return api.KeepOnly(web.Annotations, openShiftServiceKeys)
	}
	failing := func(message, n string) map[string]string {
		return map[string]string{api.OpenShiftError: message, api.OpenShiftErrorAlpha: message, api.OpenShiftErrorNum: n, api.OpenShiftErrorNumAlpha: n}
	}
	mistake := `servingcert.dev/duration: "abc": not a valid duration: must be a Go duration between 1h and 2160h, such as 720h`
	assert.Equal(t, failing(mistake, "1"), words())
	web.Annotations[api.AnnotationDuration] = "9999h"
	assert.Equal(t, failing(`servingcert.dev/duration: "9999h": must be between 1h and 2160h`, "2"), words())

	delete(web.Annotations, api.AnnotationDuration)
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	name := w.ca.Certificate.Subject.CommonName
	signed := map[string]string{api.OpenShiftSignedBy: name, api.OpenShiftSignedByAlpha: name}
	assert.Equal(t, signed, words(), "cleared, as a certificate could be made")

	web.Annotations[api.OpenShiftError], web.Annotations[api.OpenShiftErrorNum] = "of another", "10"
	assert.Equal(t, signed, words(), "ten is no end")
	web.Annotations[api.OpenShiftErrorNumAlpha] = "x"
	assert.Equal(t, signed, words())
	for _, number := range []string{"-3", "0", "x", ""} {
		assert.Equal(t, 1, errorNumber(map[string]string{api.OpenShiftErrorNum: number, api.OpenShiftError: "m"}, "m"), "%q", number)
	}

	web.Annotations[api.AnnotationKeyAlgorithm] = "DSA"
	got := words()
	assert.Equal(t, name, got[api.OpenShiftSignedBy], "what is there is still signed by it")
	assert.Equal(t, "1", got[api.OpenShiftErrorNum])
	assert.Contains(t, got[api.OpenShiftError], "unknown key algorithm")
}

func TestNamesThatWaitAreNoFailure(t *testing.T) {
	l := widened(t)
	web := inOpenShiftWords("web", api.OpenShiftSecretName, api.AnnotationExtraDNSNames, "www.apps.example.com")
	w := newScene(l.At(epoch, 1), nil, web)
	w.limits, w.openShift = permissive(), true
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	require.Contains(t, said(s, d)["web"], "False WaitingForTrust: ")
	words := conditions(s, d)[0].Annotations
	assert.Equal(t, []string{api.OpenShiftSignedByAlpha, api.OpenShiftSignedBy}, sortedKeys(words))
}

// The namespace never had the label, so it was not opted out.
func TestWhatIsKeptOfAServiceThatAsksNoMore(t *testing.T) {
	w := openShiftScene(t, inOpenShiftWords("web", api.OpenShiftSecretName))
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	w.services[0].Status.Conditions = readyOf(t, s, d, s.Requesters[0]).Both()
	w.services[0] = asksNoMore(w.services[0])
	assert.True(t, strings.HasPrefix(said(w.decide())["web"], `True Retained: Secret "web-tls": no longer requested; `))
}

// asksNoMore returns the Service after its user has removed the annotations.
func asksNoMore(svc *corev1.Service) *corev1.Service {
	after := service(svc.Name, api.AnnotationSecretName, "-")
	after.Status = svc.Status
	return after
}

// While the CA is not known yet, no condition is removed.
func TestNothingIsSaidInOpenShiftWordsBeforeTheCAIsKnown(t *testing.T) {
	w := openShiftScene(t, inOpenShiftWords("web", api.OpenShiftSecretName), service("ours"))
	w.caErr = caError(reasonPending)
	assert.Empty(t, said(w.decide()))
}

// Without the flag, OpenShift's annotations are ignored on any object: they affect no decision, and
// are not written.
func TestWithoutTheFlagOpenShiftWordsMeanNothing(t *testing.T) {
	world := newWorld(t)
	onServices := append([]string{api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha}, openShiftServiceKeys...)
	values := []string{"web-tls", "other-tls", "", "A_B", "10"}
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		s, before := w.decide()
		said := conditions(s, before)
		for _, svc := range w.services {
			maps.Copy(svc.Annotations, rapid.MapOf(rapid.SampledFrom(onServices), rapid.SampledFrom(values)).Draw(t, svc.Name))
		}
		if w.secret != nil {
			record := w.secret.Annotations[api.AnnotationIssuedLeaf]
			w.secret.Annotations = rapid.MapOf(rapid.SampledFrom(openShiftSecretKeys), rapid.SampledFrom(values)).Draw(t, "Secret")
			w.secret.Annotations[api.AnnotationIssuedLeaf] = record
		}
		s, after := w.decide()
		require.Equal(t, before, after)
		require.Equal(t, said, conditions(s, after))
		delete(after.Content.Annotations, api.AnnotationIssuedLeaf)
		delete(after.Content.Annotations, api.AnnotationKeystorePassword)
		delete(after.Content.Annotations, api.AnnotationKeystoreDigest)
		require.Empty(t, after.Content.Annotations)
		for _, status := range said {
			require.Empty(t, status.Annotations)
		}
	})
}

// With the flag, one write is enough too.
func TestOneWriteIsEnoughInOpenShiftWords(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		w.openShift = true
		for _, svc := range w.services {
			word := oneOf(t, "word "+svc.Name, "", api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha)
			if name, ok := svc.Annotations[api.AnnotationSecretName]; ok && word != "" {
				delete(svc.Annotations, api.AnnotationSecretName)
				svc.Annotations[word] = name
			}
		}
		if w.secret != nil {
			w.secret.Annotations = rapid.MapOf(rapid.SampledFrom(openShiftSecretKeys), rapid.SampledFrom([]string{"web", "uid-of-web", "x"})).Draw(t, "Secret")
		}
		s, d := w.decide()
		w.apply(t, s, d, plainSign())
		s, again := w.decide()
		require.Equal(t, Nothing, again.Action, "after %s %s: %s %s", d.Action, d.Reason, again.Action, again.Message)
		if d.Action != Nothing {
			delete(s.Secret.Annotations, api.AnnotationIssuedLeaf)
			delete(s.Secret.Annotations, api.AnnotationKeystorePassword)
			delete(s.Secret.Annotations, api.AnnotationKeystoreDigest)
			require.Equal(t, openShiftOnSecret(again.Participants, s.Secret.Leaf.NotAfter).over(nil), annotations(nil).over(s.Secret.Annotations))
		}
	})
}

// A Secret that service-ca wrote stays until its own time, if its CA is known: the root is in tls.crt
// and the key may not be in PKCS #8, but it has no other defect.
func TestWhatServiceCAIssuedIsReplacedAtItsMoment(t *testing.T) {
	ca := testCA(t)
	cross := newCA(t, clusterNames, epoch, epoch.Add(day)).Certificate
	ca.Chain = []*x509.Certificate{cross}
	for name, c := range map[string]struct {
		change func(*scene)
		waits  bool
		reason Reason
	}{
		"as it is":                     {func(*scene) {}, true, reasonSucceeded},
		"with the key in our form":     {func(w *scene) { w.secret.Data["tls.key"] = pkcs8Of(t, w.secret.Data["tls.key"]) }, true, reasonSucceeded},
		"after a rotation":             {func(w *scene) { addTo(w.secret, cross) }, true, reasonSucceeded},
		"immutable":                    {func(w *scene) { w.secret.Immutable = new(true) }, true, reasonSucceeded},
		"about to expire":              {func(w *scene) { w.now = epoch.Add(729 * day) }, false, reasonGarbage},
		"without its key":              {func(w *scene) { delete(w.secret.Data, "tls.key") }, false, reasonKeyMissing},
		"with another's key":           {func(w *scene) { w.secret.Data["tls.key"] = pkcs1(t) }, false, reasonGarbage},
		"with something else in chain": {func(w *scene) { addTo(w.secret, cross, cross) }, false, reasonGarbage},
	} {
		t.Run(name, func(t *testing.T) {
			w := openShiftScene(t, inOpenShiftWords("web", api.OpenShiftSecretName))
			w.ca, w.secret = ca, serviceCAs(t, ca, w.services[0])
			c.change(w)
			decide := func() (Situation, Decision) {
				s := w.situation()
				require.Equal(t, ReadLive, Decide(s, OwnershipOf(s)).Action)
				s.Secret, s.Unmanaged = FactsOf(w.secret, api.DefaultInstance), nil
				s.Widened = pki.Window{From: epoch, Until: epoch.Add(10 * time.Minute)}
				return s, Decide(s, OwnershipOf(s))
			}
			s, d := decide()
			require.Equal(t, c.waits, d.Wait, d.Message)
			if c.waits {
				assert.False(t, d.Issues())
				assert.WithinRange(t, d.NextAt, epoch, epoch.Add(10*time.Minute))
				assert.Empty(t, conditions(s, d), "its condition is what it was")
				w.now = d.NextAt
				s, d = decide()
			}
			assert.True(t, d.Issues())
			assert.Equal(t, c.reason, d.Reason, d.Message)
			assert.Equal(t, c.waits, d.Tokens == 0)
			w.apply(t, s, d, plainSign())
			_, d = w.decide()
			assert.Equal(t, Nothing, d.Action, d.Message)
		})
	}
}

// serviceCAs returns Secret web-tls as service-ca writes it.
func serviceCAs(t *testing.T, ca *pki.Authority, owner *corev1.Service) *corev1.Secret {
	t.Helper()
	wanted := wantedBy(service("web", api.AnnotationKeyAlgorithm, "RSA2048"))
	wanted.Params.Duration = 730 * day
	issued := issueBy(t, ca, wanted, epoch)
	secret := managed(issued, owner)
	secret.Labels = nil
	key, err := pki.ParseKey(issued.KeyPEM)
	require.NoError(t, err)
	secret.Data = map[string][]byte{
		"tls.crt": pki.EncodeCertificates(issued.Leaf, ca.Certificate),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key.(*rsa.PrivateKey))}),
	}
	return secret
}

func pkcs1(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.RSA2048)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key.(*rsa.PrivateKey))})
}

func pkcs8Of(t *testing.T, form []byte) []byte {
	t.Helper()
	key, err := pki.ParseForeignKey(form)
	require.NoError(t, err)
	data, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return data
}

func addTo(secret *corev1.Secret, certs ...*x509.Certificate) {
	secret.Data["tls.crt"] = append(secret.Data["tls.crt"], pki.EncodeCertificates(certs...)...)
}
