package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKeySource(t *testing.T) {
	for name, c := range map[string]struct {
		annotations []string
		wants, pods bool // a Secret, keys of pods
		err         string
	}{
		"not said":              {nil, true, false, ""},
		"secret":                {[]string{AnnotationKeySource, "secret"}, true, false, ""},
		"pod":                   {[]string{AnnotationKeySource, "pod"}, false, true, ""},
		"pod, without a Secret": {[]string{AnnotationKeySource, "pod", AnnotationSecretName, "-"}, false, true, ""},
		"pod, with an impossible Secret": {[]string{AnnotationKeySource, "pod", AnnotationSecretName, "A"}, false, true,
			`servingcert.dev/secret-name: "A": not a valid Secret name`},
		"something else":         {[]string{AnnotationKeySource, "Pod"}, true, false, `servingcert.dev/key-source: "Pod": must be "secret" or "pod"`},
		"a key of another kind":  {[]string{AnnotationKeySource, "pod", AnnotationKeyAlgorithm, "RSA2048"}, false, true, `servingcert.dev/key-algorithm: "RSA2048": kubelets do not make such keys`},
		"a key of a known kind":  {[]string{AnnotationKeySource, "pod", AnnotationKeyAlgorithm, "RSA3072"}, false, true, ""},
		"a Secret with RSA2048":  {[]string{AnnotationKeyAlgorithm, "RSA2048"}, true, false, ""},
		"a name that is refused": {[]string{AnnotationKeySource, "pod", AnnotationExtraDNSNames, "x"}, false, true, `servingcert.dev/extra-dns-names: "x": not permitted`},
	} {
		t.Run(name, func(t *testing.T) {
			svc := service(c.annotations...)
			svc.Spec.Selector = map[string]string{"app": "web"}
			if svc.Annotations[AnnotationSecretName] == "-" {
				delete(svc.Annotations, AnnotationSecretName)
			}
			_, wants := Wants(svc)
			assert.Equal(t, c.wants, wants)
			assert.Equal(t, c.pods, WantsPodKeys(svc))
			assert.True(t, Asks(svc))
			_, err := Parse(svc, DefaultLimits())
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
	ofHosts := service(AnnotationKeySource, "pod")
	ofHosts.Spec.Selector = nil
	_, err := Parse(ofHosts, DefaultLimits())
	require.NoError(t, err, "what serves it may make keys without being a pod")
	leaving := service(AnnotationKeySource, "pod")
	leaving.DeletionTimestamp = &metav1.Time{Time: created}
	assert.False(t, Asks(leaving))
	assert.False(t, Asks(&corev1.Service{}))
}

// Below a headless Service, a pod gets only its own name.
func TestNamesOfOnePod(t *testing.T) {
	headless := service(AnnotationKeySource, "pod", AnnotationExtraDNSNames, "*.apps.example.com,*.web.shop.svc,admin.web.shop.svc")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	headless.Spec.Selector = map[string]string{"app": "web"}
	limits := permissive()
	limits.FormerDomains = []string{"old.local"}
	for name, c := range map[string]struct {
		hostname, subdomain string
		own                 string
	}{
		"a pod of a StatefulSet":                {"web-0", "web", "web-0"},
		"a pod without a name":                  {"", "", ""},
		"a pod below another Service":           {"web-0", "other", ""},
		"a pod with a subdomain and no name":    {"", "web", ""},
		"a pod with a name and no subdomain":    {"web-0", "", ""},
		"another pod with a name of its own":    {"admin", "web", "admin"},
		"a pod with a long name of its own":     {strings.Repeat("a", 63), "web", strings.Repeat("a", 63)},
		"a pod whose own name is another's too": {"web", "web", "web"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Hostname: c.hostname, Subdomain: c.subdomain}}
			wanted, members, ok := MergeForPod(pod, []*corev1.Service{headless}, limits)
			require.True(t, ok, "%v", members)
			want := []string{"*.apps.example.com", "admin.web.shop.svc", "web.shop.svc", "web.shop.svc.cluster.local"}
			former := []string{"web.shop.svc.old.local"}
			if c.own != "" {
				want = union(want, []string{c.own + ".web.shop.svc", c.own + ".web.shop.svc.cluster.local"}, strings.Compare)
				former = union(former, []string{c.own + ".web.shop.svc.old.local"}, strings.Compare)
			}
			assert.Equal(t, want, wanted.DNSNames)
			assert.Subset(t, wanted.FormerNames, former)
		})
	}
}

// A Service whose request is refused, or would exceed the number of names, does not affect the
// others.
func TestServicesOfOnePod(t *testing.T) {
	at := func(name string, age time.Duration, annotations ...string) *corev1.Service {
		svc := service(append(annotations, AnnotationKeySource, "pod")...)
		svc.Name, svc.CreationTimestamp = name, metav1.NewTime(created.Add(-age))
		svc.Spec.Selector = map[string]string{"app": "web"}
		return svc
	}
	var many []string
	for i := range 97 {
		many = append(many, fmt.Sprintf("n%02d.big.shop.svc", i))
	}
	wanted, members, ok := MergeForPod(&corev1.Pod{}, []*corev1.Service{
		at("wrong", 4*time.Hour, AnnotationExtraDNSNames, "www.google.com"),
		at("late", 0), at("big", time.Hour, AnnotationExtraDNSNames, strings.Join(many, ",")), at("first", 2*time.Hour),
	}, DefaultLimits())
	require.True(t, ok)
	assert.Equal(t, []string{"first.shop.svc", "first.shop.svc.cluster.local", "late.shop.svc", "late.shop.svc.cluster.local"}, wanted.DNSNames)
	said := map[string]string{}
	for _, m := range members {
		if m.Err != nil {
			said[m.Service.Name] = m.Err.Error()
		}
	}
	assert.Len(t, said, 2)
	assert.Contains(t, said["wrong"], "not permitted")
	assert.Equal(t, `metadata.name: "big": the Services that select the pod would have 101 names together: must be at most 100`, said["big"])

	_, _, ok = MergeForPod(&corev1.Pod{}, nil, DefaultLimits())
	assert.False(t, ok)
}
