package serving

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// keylessPod is a pod of the Deployment that mounts nothing, before the changes.
func keylessPod(name, workload string, changes ...rotatortest.Change) *pods.Facts {
	bare := func(p *corev1.Pod) { p.Spec.Volumes, p.Spec.Containers = nil, []corev1.Container{{}} }
	return readyPod(name, workload, append([]rotatortest.Change{bare}, changes...)...)
}

func of(all ...*pods.Facts) func() []*pods.Facts { return func() []*pods.Facts { return all } }

// TestKeyless: what a Service's pods without its key are.
func TestKeyless(t *testing.T) {
	web := rotatortest.Ready("web", rotatortest.Leaf(2))
	ended := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: rotatortest.Noon} }
	oneShot := rotatortest.Annotation("helm.sh/hook", "post-install")
	waiting := func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }
	for _, tt := range []struct {
		name string
		pod  *pods.Facts
		want string
	}{
		{"it mounts the Secret", readyPod("a", "web"), ""},
		{"it mounts nothing", keylessPod("a", "web"), "Deployment web"},
		{"it mounts another Secret", keylessPod("a", "web", rotatortest.SecretVolume("password")), "Deployment web"},
		{"it is not ready yet", keylessPod("a", "web", waiting), "Deployment web"},
		{"it is opted out", keylessPod("a", "web", rotatortest.Label(api.LabelInject, api.InjectDisabled)), "Deployment web"},
		{"it is being deleted", keylessPod("a", "web", ended), ""},
		{"it runs to completion", keylessPod("a", "web", oneShot), ""},
		{"it is of another Service", keylessPod("a", "db", rotatortest.Label("app", "db")), ""},
		{"it is static", keylessPod("a", "web", rotatortest.Mirror("node")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Keyless([]*corev1.Service{web}, of(tt.pod))[web.UID])
		})
	}
	silent := rotatortest.Ready("web", rotatortest.Leaf(2))
	silent.Annotations = nil
	assert.Empty(t, Keyless([]*corev1.Service{silent}, of(keylessPod("a", "web"))), "it asks for nothing")
	kept := rotatortest.Ready("web", rotatortest.Leaf(2))
	kept.Annotations[api.AnnotationSecretName] = "new-tls"
	assert.NotEmpty(t, Keyless([]*corev1.Service{kept}, of(readyPod("a", "web"))), "it mounts the Secret of before")
	kept.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, state.Ready{Secret: "new-tls", Kept: []string{"web-tls"}}).Both()
	assert.Empty(t, Keyless([]*corev1.Service{kept}, of(readyPod("a", "web"))), "it mounts a Secret that is kept")
}

// TestKeylessPodsThatAreNoEndpoints: a port that has a name leads only to the pods that declare it, such as those
// that have the proxy.
func TestKeylessPodsThatAreNoEndpoints(t *testing.T) {
	old := keylessPod("a", "web")
	declares := keylessPod("a", "web", rotatortest.Declares("https", 8443))
	for _, tt := range []struct {
		target any
		pod    *pods.Facts
		want   bool
	}{
		{8443, old, true}, {"https", old, false}, {"https", declares, true}, {"sc-tls-8080", declares, false},
	} {
		web := rotatortest.Asking("web", map[string]string{"app": "web"}, tt.target)
		assert.Equal(t, tt.want, Keyless([]*corev1.Service{web}, of(tt.pod))[web.UID] != "", "%v %s", tt.target, tt.pod.Template.Value().Ports)
	}
}

// TestKeylessNamesWorkloads, each once, and only some of many.
func TestKeylessNamesWorkloads(t *testing.T) {
	web := rotatortest.Ready("web", rotatortest.Leaf(2))
	var all []*pods.Facts
	for i := range maxNamed + 2 {
		all = append(all, keylessPod("a", fmt.Sprint("web-", i)), keylessPod("b", fmt.Sprint("web-", i)))
	}
	assert.Equal(t, "Deployment web-0, Deployment web-1", Keyless([]*corev1.Service{web}, of(all[:4]...))[web.UID])
	assert.Contains(t, Keyless([]*corev1.Service{web}, of(all...))[web.UID], " and 2 more")
}

// TestKeylessCostsLittle, however many pods of different templates a namespace has, and however many Services with many
// ports select them.
func TestKeylessCostsLittle(t *testing.T) {
	var ports []any
	for i := range api.MaxPorts {
		ports = append(ports, fmt.Sprintf("https-%d", i))
	}
	var services []*corev1.Service
	for i := range 100 {
		services = append(services, rotatortest.Asking(fmt.Sprint("web-", i), map[string]string{"app": "web"}, ports...))
	}
	var all []*pods.Facts
	for i := range 100 {
		all = append(all, keylessPod(fmt.Sprint(i), fmt.Sprint("web-", i), rotatortest.Label("number", fmt.Sprint(i))))
	}
	assert.Less(t, bounded.Allocated(func() { Keyless(services, of(all...)) }), uint64(40<<20*bounded.RaceFactor)) // half of it to read the Services once
}

// TestKeylessConsidersTheOldestServices of each Secret, as those that are dialled. Others of the namespace change nothing.
func TestKeylessConsidersTheOldestServices(t *testing.T) {
	selector := map[string]string{"app": "web"}
	var ports []any
	for i := range api.MaxPorts - 1 {
		ports = append(ports, fmt.Sprintf("https-%d", i))
	}
	a, b, c := rotatortest.Asking("a", selector, append(ports, 8443)...), rotatortest.Asking("b", selector, 8443), rotatortest.Asking("c", selector, 8443)
	c.Annotations[api.AnnotationSecretName] = "c-tls"
	for i, svc := range []*corev1.Service{a, b, c} {
		svc.Spec.Ports[len(svc.Spec.Ports)-1].Name = "https"
		svc.CreationTimestamp = metav1.NewTime(rotatortest.Noon.Add(time.Duration(i) * time.Second))
	}
	for i := range a.Spec.Ports {
		a.Spec.Ports[i].Name = fmt.Sprint("https-", i)
	}
	found := Keyless([]*corev1.Service{c, b, a}, of(keylessPod("x", "web")))
	assert.Equal(t, map[types.UID]string{a.UID: "Deployment web", c.UID: "Deployment web"}, found)
	assert.Equal(t, found[c.UID], Keyless([]*corev1.Service{c}, of(keylessPod("x", "web")))[c.UID])
}

// TestServingIsNotTrueWithKeylessPods: a Service leads to pods that cannot serve its certificate, also if all that
// can serve it do. What is worse is still reported.
func TestServingIsNotTrueWithKeylessPods(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	decide := func(keyless map[types.UID]string, leaf string) *state.Condition {
		s := lookAt(time.Hour, svc, asked(readyPod("a", "web"), showed(leaf, time.Hour)))
		s.Keyless = keyless
		d := s.Decide()
		require.Len(t, d.Conditions, 1)
		return d.Conditions[0].Want
	}
	old := map[types.UID]string{svc.UID: "Deployment web"}
	assert.Equal(t, "Current", decide(nil, rotatortest.Leaf(2)).Reason)
	assert.Equal(t, "Current", decide(map[types.UID]string{"other": "Deployment web"}, rotatortest.Leaf(2)).Reason)
	got := decide(old, rotatortest.Leaf(2))
	assert.Equal(t, "False NotMounted", string(got.Status)+" "+got.Reason)
	assert.Equal(t, `the certificate in Secret "web-tls" is not served by pods that do not mount it: Deployment web; `+
		"restart them, or read the reason in their annotation servingcert.dev/status", got.Message)
	assert.Equal(t, "Stale", decide(old, rotatortest.Leaf(1)).Reason)
}
