package trust

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func sourceConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName}}
}

func hash(t *testing.T, bundle string) string {
	t.Helper()
	b, err := pki.ParseBundle([]byte(bundle))
	require.NoError(t, err)
	return b.Hash()
}

// On a fresh install the rotator may well be first.
func TestSourceAppearsLater(t *testing.T) {
	r := startRotator(t)
	ns := newNamespace(t)
	create(t, mutating("early", byService("a")))
	got := status(t, map[string]string{api.TrustTargets: "2", api.TrustHolding: "0", api.TrustBundleHash: ""})
	assert.Contains(t, got[api.TrustProblem], "does not exist")
	event(t, system, trustcontroller.EventSourceInvalid, api.CAStatusName)
	r.shows(t, "servingcert_trust_source_valid", "", 0)
	assert.Zero(t, r.requests.count(ns))
	assert.Zero(t, r.requests.count("webhookconfigurations"))

	bundle := newBundle(t)
	setSource(t, bundle)
	holds(t, ns, bundle)
	caBundles(t, "early", bundle)
	status(t, map[string]string{
		api.TrustTargets: "2", api.TrustHolding: "2", api.TrustBundleHash: hash(t, bundle),
		api.TrustNotHolding: "", api.TrustProblem: "",
	})
	r.shows(t, "servingcert_trust_source_valid", "", 1)
	r.shows(t, "servingcert_trust_bundle_info", "hash="+hash(t, bundle), 1)
}

func TestBadSourceChangesNoTarget(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	ns := newNamespace(t)
	create(t, mutating("kept", byService("a")))
	cm := newConfigMap(t, annotation(), nil)
	holds(t, ns, bundle)
	caBundles(t, "kept", bundle)
	dataIs(t, cm, map[string]string{api.BundleKey: bundle})

	tests := []struct {
		name    string
		damage  func(*corev1.ConfigMap)
		problem string
	}{
		{"garbage", func(cm *corev1.ConfigMap) { cm.Data[api.BundleKey] = "garbage" }, "not PEM"},
		{"key removed", func(cm *corev1.ConfigMap) { cm.Data = nil }, "has no key"},
		{"foreign root", func(cm *corev1.ConfigMap) {
			cm.Data[api.CABundleHash] = hash(t, bundle)
			cm.Data[api.BundleKey] += newBundle(t)
		}, "does not match the hash in key bundle-hash"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setSource(t, bundle)
			status(t, map[string]string{api.TrustHolding: "3", api.TrustBundleHash: hash(t, bundle)})
			writes := r.requests.count("/" + ns + "/")
			harness.Change(t, admin, sourceConfigMap(), tt.damage)
			harness.Eventually(t, func() error {
				got := status(t, map[string]string{api.TrustBundleHash: "", api.TrustHolding: "0", api.TrustTargets: "3"})
				if !strings.Contains(got[api.TrustProblem], tt.problem) {
					return fmt.Errorf("problem is %q", got[api.TrustProblem])
				}
				return nil
			})
			r.shows(t, "servingcert_trust_source_valid", "", 0)
			holds(t, ns, bundle)
			caBundles(t, "kept", bundle)
			dataIs(t, cm, map[string]string{api.BundleKey: bundle})
			assert.Equal(t, writes, r.requests.count("/"+ns+"/"))
		})
	}
	t.Run("deleted", func(t *testing.T) {
		remove(t, sourceConfigMap())
		status(t, map[string]string{api.TrustBundleHash: "", api.TrustHolding: "0"})
		holds(t, ns, bundle)
		caBundles(t, "kept", bundle)
	})
	event(t, system, trustcontroller.EventSourceInvalid, api.CAStatusName)
}

// A root that expires leaves the bundle by itself: nothing happens at that time.
func TestExpiredRootLeaves(t *testing.T) {
	clock := &harness.Clock{}
	old, current := newRoot(t, 1, time.Now().Add(time.Hour)), newRoot(t, 2, time.Now().Add(2*time.Hour))
	both := pki.NewBundle(append(old.Certificates(), current.Certificates()...)...)
	setSource(t, string(both.PEM()))
	startRotator(t, func(c *trustcontroller.Config) { c.Now = clock.Now })
	ns := newNamespace(t)
	create(t, mutating("expires", byService("a")))
	holds(t, ns, string(both.PEM()))
	caBundles(t, "expires", string(both.PEM()))

	clock.Set(old.Certificates()[0].NotAfter.Add(-2 * time.Second))
	setSource(t, "\n"+string(both.PEM())) // the same: it is looked at by this clock, and in two seconds
	holds(t, ns, string(current.PEM()))
	caBundles(t, "expires", string(current.PEM()))
	status(t, map[string]string{api.TrustBundleHash: current.Hash(), api.TrustHolding: "2", api.TrustTargets: "2"})
}
