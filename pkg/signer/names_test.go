package signer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// widened is a CA whose second generation permits more than its first.
func widened(t require.TestingT) ladder {
	return newLadder(t, clusterNames, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "new.domain", "apps.example.com"}, PermitIPs: true})
}

// permissive are the limits that go with it.
func permissive() api.Limits {
	limits := api.DefaultLimits()
	limits.PermitClusterIPs = true
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "*", Suffix: "apps.example.com"}}
	return limits
}

func TestNamesWaitUntilEveryRootPermitsThem(t *testing.T) {
	l := widened(t)
	plain, asks := service("plain"), service("web", api.AnnotationExtraDNSNames, "www.apps.example.com", api.AnnotationClusterIPs, "true")
	w := newScene(l.At(epoch, 1), nil, plain, asks)
	w.limits = permissive()

	s, d := w.decide()
	require.Equal(t, Create, d.Action)
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	require.Equal(t, Nothing.String(), d.Action.String(), "%s", d.Message)
	leaf := s.Secret.Leaf
	assert.Equal(t, []string{"plain.shop.svc", "plain.shop.svc.cluster.local", "web.shop.svc", "web.shop.svc.cluster.local"}, leaf.DNSNames)
	assert.Empty(t, leaf.IPs)
	before := said(s, d)
	assert.True(t, strings.HasPrefix(before["plain"], "True Issued: "), "it has all that it asks for: %s", before["plain"])
	request := d.Asked.Hash()
	assert.Equal(t, `False WaitingForTrust: Secret "web-tls": plain.shop.svc, plain.shop.svc.cluster.local, web.shop.svc, web.shop.svc.cluster.local; `+
		`waiting: www.apps.example.com, 10.0.0.1: clients may still hold a root that does not permit these names, and would reject the whole certificate; `+
		`they are added once every older root has retired (leaf sha256:`+leaf.Fingerprint+")", before["web"])

	t.Run("the rotator finds the leaf", func(t *testing.T) {
		asks := asks.DeepCopy()
		asks.Status.Conditions = readyOf(t, s, d, asks).Both()
		got, ok := state.LeafOf(asks)
		assert.True(t, ok)
		assert.Equal(t, leaf.Fingerprint, got)
	})

	w.ca = l.At(epoch, 2)
	w.ca.Reissue.From = epoch.Add(day)
	s, d = w.decide()
	require.Equal(t, Nothing.String(), d.Action.String(), "the older root is still out there")
	assert.Equal(t, before, said(s, d), "nothing new to say: no write")

	w.ca.Anchors = l.Roots[1:]
	s, d = w.decide()
	require.Equal(t, reasonNames, d.Reason)
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	assert.Contains(t, s.Secret.Leaf.DNSNames, "www.apps.example.com")
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, s.Secret.Leaf.IPs)
	assert.True(t, strings.HasPrefix(said(s, d)["web"], "True Issued: "))
	assert.Contains(t, readyOf(t, s, d, asks).State, `"request":"`+request+`"`, "the same request as before")
}

func TestNoRequestedNameIsPermitted(t *testing.T) {
	l := newLadder(t, clusterNames, pki.Constraints{PermittedDNS: []string{"example.com"}})
	web := service("web")
	issued := issueBy(t, l.At(epoch, 1), wantedBy(web), epoch)
	waits := `Secret "web-tls": no certificate; waiting: web.shop.svc, web.shop.svc.cluster.local: `

	w := newScene(l.At(epoch, 2), nil, web)
	s, d := w.decide()
	require.Equal(t, Nothing.String(), d.Action.String())
	require.Equal(t, reasonWaiting, d.Problem.Reason)
	assert.True(t, strings.HasPrefix(said(s, d)["web"], "False WaitingForTrust: "+waits), said(s, d)["web"])
	assert.NotContains(t, said(s, d)["web"], "leaf")

	w.secret = managed(issued, web)
	s, d = w.decide()
	require.Equal(t, Nothing.String(), d.Action.String(), "what is there stays")
	assert.Contains(t, said(s, d)["web"], "leaf sha256:"+pki.Fingerprint(issued.Leaf))
	w.services[0] = service("web", api.AnnotationSecretName, "-")
	s, d = w.decide()
	assert.Contains(t, said(s, d)["web"], "False WaitingForTrust: ", "retained, and due by pace: it cannot be made anew")
	w.ca.Reissue.From = epoch.Add(day)
	s, d = w.decide()
	assert.Contains(t, said(s, d)["web"], "True Retained: ", "retained, and good")
}

// A Service that shares the Secret of one that waits, or is retained, has its own condition.
func TestFewWaitingNamesAreShown(t *testing.T) {
	l := widened(t)
	w := newScene(l.At(epoch, 1), nil, service("web", api.AnnotationExtraDNSNames, "a.apps.example.com,b.apps.example.com,c.apps.example.com,d.apps.example.com,e.apps.example.com"))
	w.limits = permissive()
	s, d := w.decide()
	assert.Contains(t, said(s, d)["web"], "waiting: a.apps.example.com, b.apps.example.com, c.apps.example.com, d.apps.example.com and 1 more: ")
}

func TestAChangedClusterDomainServesBoth(t *testing.T) {
	l := newLadder(t, clusterNames, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "new.domain"}}, pki.Constraints{PermittedDNS: []string{"svc", "new.domain"}})
	web := service("web")
	w := newScene(l.At(epoch, 1), nil, web)
	namesAfter := func(step string) []string {
		s, d := w.decide()
		w.apply(t, s, d, plainSign())
		s, d = w.decide()
		require.Equal(t, Nothing.String(), d.Action.String(), "%s: %s", step, d.Message)
		return s.Secret.Leaf.DNSNames
	}
	old := []string{"web.shop.svc", "web.shop.svc.cluster.local"}
	require.Equal(t, old, namesAfter("before"))

	w.limits.ClusterDomain = "new.domain"
	w.former = []string{"cluster.local"}
	require.Equal(t, old, namesAfter("the flag has changed, the CA not"))
	w.ca = l.At(epoch, 2)
	require.Equal(t, old, namesAfter("the new one signs, the old root is out there"))
	w.ca.Anchors = l.Roots[1:2]
	require.Equal(t, []string{"web.shop.svc", "web.shop.svc.cluster.local", "web.shop.svc.new.domain"}, namesAfter("every root permits both"))
	w.former = nil
	require.Equal(t, []string{"web.shop.svc", "web.shop.svc.new.domain"}, namesAfter("over"))
}

// Names of former domains do not displace requested names.
func TestFormerNamesFillUpToMaxNames(t *testing.T) {
	ca := newCA(t, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "old"}}, epoch.Add(-day), epoch.Add(1000*day))
	asked := api.Wanted{FormerNames: []string{"a.shop.svc.old", "b.shop.svc.elsewhere", "b.shop.svc.old"}}
	for i := range api.MaxNames - 1 {
		asked.DNSNames = append(asked.DNSNames, fmt.Sprintf("n%03d.shop.svc", i))
	}
	got, waits := Acceptable(asked, api.DefaultLimits(), ca)
	assert.False(t, waits, "nobody asks for them")
	assert.Len(t, got.DNSNames, api.MaxNames)
	assert.Contains(t, got.DNSNames, "a.shop.svc.old")
	assert.True(t, slices.IsSorted(got.DNSNames))

	asked.DNSNames = []string{"a.shop.svc.old"}
	got, _ = Acceptable(asked, api.DefaultLimits(), ca)
	assert.Equal(t, []string{"a.shop.svc.old", "b.shop.svc.old"}, got.DNSNames, "none twice, and none that is not permitted")
}

// For any roots and any request, each root alone accepts the issued certificate, and the condition
// reports the names that wait.
func TestNoNameThatARootRefusesIsIssued(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLadder(t, drawConstraints(t), drawConstraints(t), drawConstraints(t))
		w := newScene(l.At(epoch, rapid.IntRange(1, 3).Draw(t, "signing")), nil)
		w.limits = permissive()
		w.limits.ClusterDomain = oneOf(t, "cluster domain", "cluster.local", "new.domain")
		w.former = oneOf(t, "former", nil, []string{"old.domain"}, []string{"old.domain", "cluster.local"})
		for _, name := range []string{"api", "web"} {
			svc := service(name, api.AnnotationExtraDNSNames, oneOf(t, "extra "+name, "-", "www.apps.example.com", "x."+name+".shop.svc"), api.AnnotationClusterIPs, oneOf(t, "IPs "+name, "true", "false"))
			if rapid.Bool().Draw(t, "headless "+name) {
				svc.Spec.ClusterIP = corev1.ClusterIPNone
			}
			w.services = append(w.services, svc)
		}
		s, d := w.decide()
		if d.Action == Nothing {
			require.Equal(t, reasonWaiting, d.Problem.Reason)
			return
		}
		issued, err := issue.Issue(context.Background(), plainSign(), w.ca, d.Wanted, w.now)
		require.NoError(t, err, "each root alone accepts it")
		words := said(s, d)
		for _, svc := range w.services {
			asked := api.Retained([]*corev1.Service{svc}, s.Limits)
			missing := len(asked.IPs) > 0 && len(issued.Leaf.IPAddresses) == 0
			for _, name := range asked.DNSNames {
				missing = missing || !slices.Contains(issued.Leaf.DNSNames, name)
			}
			require.Equal(t, missing, strings.HasPrefix(words[svc.Name], "False WaitingForTrust: "), "%s", words[svc.Name])
		}
	})
}

// drawConstraints permits some domains, and IP addresses or none.
func drawConstraints(t *rapid.T) pki.Constraints {
	c := pki.Constraints{PermittedDNS: []string{"nothing.else"}, PermitIPs: rapid.Bool().Draw(t, "permits IPs")}
	for _, domain := range []string{"svc", "cluster.local", "new.domain", "apps.example.com", "old.domain"} {
		if !seldom(t, 3, "refuses "+domain) {
			c.PermittedDNS = append(c.PermittedDNS, domain)
		}
	}
	return c
}

// waitingScene is a Service whose name www.apps.example.com has waited for the older root, which
// was just removed, with its condition.
func waitingScene(t *testing.T, name string) *scene {
	l := widened(t)
	w := newScene(l.At(epoch, 2), nil, service(name, api.AnnotationSecretName, "web-tls", api.AnnotationExtraDNSNames, "www.apps.example.com"))
	w.limits = permissive()
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	ready := readyOf(t, s, d, w.services[0])
	require.Equal(t, string(reasonWaiting), ready.Reason)
	w.services[0].Status.Conditions = ready.Both()
	w.ca.Anchors = l.Roots[1:]
	return w
}

// Names that waited for a root are not issued for all Services at the same time.
func TestNamesThatWaitedAreSpread(t *testing.T) {
	window := pki.Window{From: epoch, Until: epoch.Add(10 * time.Minute)}
	minutes := map[int]bool{}
	for i := range 40 {
		w := waitingScene(t, fmt.Sprint("web-", i))
		s := w.situation()
		s.Widened = window
		at := window.AtOf(s.Secret.Leaf.Sum)
		minutes[int(at.Sub(epoch)/time.Minute)] = true

		d := Decide(s, OwnershipOf(s))
		assert.Equal(t, "Nothing", d.Action.String())
		assert.Equal(t, at, d.NextAt)
		update := StatusUpdateOf(s, d, Outcome{})
		assert.Empty(t, update.Services, "they still wait, and say so")
		assert.Equal(t, s.Secret.Leaf.Fingerprint, update.Leaf)
		assert.Equal(t, at, update.NextAt)

		s.Now = at
		d = Decide(s, OwnershipOf(s))
		assert.Equal(t, reasonNames, d.Reason)
		assert.Zero(t, d.Tokens, "it is not the namespace's doing")
	}
	assert.Greater(t, len(minutes), 6, "of ten minutes, few are empty")
}

func TestNewlyRequestedNamesDoNotWait(t *testing.T) {
	for name, change := range map[string]func(w *scene){
		"another name is asked for": func(w *scene) {
			w.services[0].Annotations[api.AnnotationExtraDNSNames] = "www.apps.example.com,api.apps.example.com"
		},
		"another Service joins": func(w *scene) { w.services = append(w.services, service("api")) },
		"the Service says nothing of the certificate": func(w *scene) {
			w.services[0].Status.Conditions = nil
		},
		"another certificate was written into the Secret": func(w *scene) {
			w.secret.Data = managed(issueBy(t, w.ca, wantedBy(service("web")), epoch)).Data
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := waitingScene(t, "web")
			change(w)
			s := w.situation()
			s.Widened = pki.Window{From: epoch.Add(time.Hour), Until: epoch.Add(time.Hour)}
			d := Decide(s, OwnershipOf(s))
			assert.Equal(t, reasonNames, d.Reason)
			assert.Equal(t, 1, d.Tokens)
		})
	}
}
