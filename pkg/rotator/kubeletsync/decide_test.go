package kubeletsync

import (
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var one, two, three = rotatortest.Leaf(1), rotatortest.Leaf(2), rotatortest.Leaf(3)

// changed is a content since a time before noon.
func changed(hash string, ago time.Duration) Content {
	return Content{Hash: hash, Since: rotatortest.Noon.Add(-ago), Changed: true}
}

func TestDecide(t *testing.T) {
	created := func(ago time.Duration) rotatortest.Change {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(rotatortest.Noon.Add(-ago)) }
	}
	phase := func(phase corev1.PodPhase) rotatortest.Change {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	bundleOnly := func(p *corev1.Pod) {
		p.Spec.Volumes = nil
		rotatortest.BundleVolume()(p)
	}
	both := rotatortest.BundleVolume()
	api2 := rotatortest.SecretVolume("api-tls")
	rotated := map[string]Content{"web-tls": changed(two, 0)}
	says := func(leaf string) string { return api.Mounted{Leaves: map[string]string{"web-tls": leaf}}.String() }
	bundle := func(c Content) *Content { return &c }
	for _, tt := range []struct {
		name   string
		pod    rotatortest.Change
		s      Situation
		want   string // the value, "" if the pod is not woken
		dialed []string
	}{
		{"a new leaf", nil, Situation{Secrets: rotated}, says(two), []string{"web-tls"}},
		{"of one that was woken for the leaf before", nil, Situation{Secrets: rotated, Annotation: says(one)}, says(two), []string{"web-tls"}},
		{"of one whose annotation is malformed", nil, Situation{Secrets: rotated, Annotation: "x"}, says(two), []string{"web-tls"}},
		{"woken already", nil, Situation{Secrets: rotated, Annotation: says(two)}, "", nil},
		{"seen to serve it", nil, Situation{Secrets: rotated, Serves: []string{"web-tls"}}, "", nil},
		{"not known", nil, Situation{}, "", nil},
		{"of a Secret that it does not mount", nil, Situation{Secrets: map[string]Content{"other": changed(two, 0)}}, "", nil},
		{"the previous content is unknown", nil, Situation{Secrets: map[string]Content{"web-tls": {Hash: two, Since: rotatortest.Noon}}}, "", nil},
		{"not ready, as in a crash loop", notReady, Situation{Secrets: rotated}, says(two), []string{"web-tls"}},
		{"not running", phase(corev1.PodPending), Situation{Secrets: rotated}, "", nil},
		{"ended", phase(corev1.PodSucceeded), Situation{Secrets: rotated}, "", nil},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }, Situation{Secrets: rotated}, "", nil},
		{"a mirror pod", rotatortest.Annotation(corev1.MirrorPodAnnotationKey, "x"), Situation{Secrets: rotated}, "", nil},
		{"opted out, and mounts it by hand", rotatortest.Label(api.LabelInject, api.InjectDisabled), Situation{Secrets: rotated}, says(two), []string{"web-tls"}},
		{"created before it", created(61 * time.Second), Situation{Secrets: map[string]Content{"web-tls": changed(two, time.Minute)}}, says(two), []string{"web-tls"}},
		{"created in the same second", created(time.Minute), Situation{Secrets: map[string]Content{"web-tls": changed(two, time.Minute)}}, says(two), []string{"web-tls"}},
		{"created after it", created(59 * time.Second), Situation{Secrets: map[string]Content{"web-tls": changed(two, time.Minute)}}, "", nil},
		{"just in time", nil, Situation{Secrets: map[string]Content{"web-tls": changed(two, byItself-time.Nanosecond)}}, says(two), []string{"web-tls"}},
		{"long ago", nil, Situation{Secrets: map[string]Content{"web-tls": changed(two, byItself)}}, "", nil},

		{"one of two Secrets", api2, Situation{Secrets: map[string]Content{"web-tls": changed(two, 0), "api-tls": changed(three, time.Hour)}},
			"secret/api-tls=" + three + ",secret/web-tls=" + two, []string{"web-tls"}},
		{"both Secrets", api2, Situation{Secrets: map[string]Content{"web-tls": changed(two, 0), "api-tls": changed(three, 0)}},
			"secret/api-tls=" + three + ",secret/web-tls=" + two, []string{"api-tls", "web-tls"}},
		{"a Secret that is not ours beside it", api2, Situation{Secrets: rotated}, says(two), []string{"web-tls"}},

		{"a new bundle", bundleOnly, Situation{Bundle: bundle(changed(three, 0))}, "configmap/servingcert-ca.crt=" + three, nil},
		{"a new bundle, woken already", bundleOnly, Situation{Bundle: bundle(changed(three, 0)), Annotation: "configmap/servingcert-ca.crt=" + three}, "", nil},
		{"a new bundle, not mounted", nil, Situation{Bundle: bundle(changed(three, 0))}, "", nil},
		{"a new bundle, and serves", both, Situation{Bundle: bundle(changed(three, 0)), Secrets: map[string]Content{"web-tls": changed(two, time.Hour)}, Serves: []string{"web-tls"}, Annotation: says(two)},
			says(two) + ",configmap/servingcert-ca.crt=" + three, nil},
		{"a new leaf, and the bundle is as it was", both, Situation{Bundle: bundle(changed(three, time.Hour)), Secrets: rotated, Annotation: says(one)},
			says(two) + ",configmap/servingcert-ca.crt=" + three, []string{"web-tls"}},
		{"everything at once", both, Situation{Bundle: bundle(changed(three, 0)), Secrets: rotated}, says(two) + ",configmap/servingcert-ca.crt=" + three, []string{"web-tls"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Now, tt.s.Pod = rotatortest.Noon, pods.FactsOf(rotatortest.ReadyPod("a", "web", tt.pod))
			got := Decide(tt.s)
			assert.Equal(t, Decision{Wake: tt.want != "", Value: tt.want, Dial: tt.dialed}, got)
			if got.Wake {
				tt.s.Annotation = got.Value
				assert.Zero(t, Decide(tt.s), "it is written once")
			}
		})
	}
}

// For any changes, decisions and processes: a pod is written once for each state of its mounts, and
// not after the kubelet has updated its files by itself.
func TestPropertyOfWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := pods.FactsOf(rotatortest.ReadyPod("a", "web", rotatortest.SecretVolume("api-tls"), rotatortest.BundleVolume()))
		contents := map[string]Content{}
		bundle := Content{}
		now, annotation := rotatortest.Noon, ""
		writes, changes := 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later")))
			name := rapid.SampledFrom([]string{"web-tls", "api-tls", "bundle", "nothing"}).Draw(t, "changes")
			became := Content{Hash: rotatortest.Leaf(rapid.IntRange(1, 3).Draw(t, "hash")), Since: now.Truncate(time.Second), Changed: true}
			had := contents[name]
			if name == "bundle" {
				had = bundle
			}
			if name != "nothing" && had.Hash != became.Hash {
				changes++
				if name == "bundle" {
					bundle = became
				} else {
					contents[name] = became
				}
			}
			s := Situation{Now: now, Pod: pod, Annotation: annotation, Secrets: contents}
			if bundle.Hash != "" {
				s.Bundle = &bundle
			}
			if d := Decide(s); d.Wake {
				writes++
				annotation = d.Value
			}
			said := api.ParseMounted(annotation)
			for name, c := range contents {
				if c.fresh(now) && said.Leaves[name] != c.Hash {
					t.Fatalf("%s is %s, and the pod was woken for %s", name, c.Hash, annotation)
				}
			}
			if bundle.fresh(now) && said.Bundle != bundle.Hash {
				t.Fatalf("the bundle is %s, and the pod was woken for %s", bundle.Hash, annotation)
			}
		}
		if writes > changes {
			t.Fatalf("%d writes for %d changes", writes, changes)
		}
	})
}

func TestAdmits(t *testing.T) {
	guarded := func(ports, admits string) *pods.Facts {
		return &pods.Facts{Template: unique.Make(pods.Template{Guarded: ports, Labels: "app=web"}), Running: true, Admits: admits}
	}
	lists := func(clients string) []*corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationClients: clients}}}
		svc.Spec.Selector = map[string]string{"app": "web"}
		svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}
		return []*corev1.Service{svc}
	}
	padded := "sc-tls-8080=evil/backdoor,a/b;sc-tls-9187=c/d" + strings.Repeat(",a/padding", 2<<10)
	long := strings.Repeat("a/b,", 20<<10)
	for name, c := range map[string]struct {
		pod      *pods.Facts
		services []*corev1.Service
		want     string // "-": nothing is written
	}{
		"as it is":                    {guarded("sc-tls-8080", "sc-tls-8080=any"), lists("any"), "-"},
		"another list":                {guarded("sc-tls-8080", "sc-tls-8080=any"), lists("a/b"), "sc-tls-8080=a/b"},
		"one that is not valid":       {guarded("sc-tls-8080", "sc-tls-8080=any"), lists("x"), "sc-tls-8080="},
		"somebody took it away":       {guarded("sc-tls-8080", ""), lists("a/b"), "sc-tls-8080=a/b"},
		"the Service is gone":         {guarded("sc-tls-8080", "sc-tls-8080=any"), nil, "-"},
		"one port is of no Service":   {guarded("sc-tls-8080,sc-tls-9187", "sc-tls-8080=any;sc-tls-9187=c/d"), lists("a/b"), "sc-tls-8080=a/b;sc-tls-9187=c/d"},
		"not known whole, all known":  {guarded("sc-tls-8080", long), lists("a/b"), "sc-tls-8080=a/b"},
		"padded":                      {guarded("sc-tls-8080,sc-tls-9187", padded), lists("a/b"), strings.Replace(padded, "evil/backdoor,", "", 1)},
		"not known whole":             {guarded("sc-tls-8080,sc-tls-9187", "sc-tls-9187=open;sc-tls-8080="+long), lists("a/b"), "sc-tls-8080=a/b"},
		"not known whole, no Service": {guarded("sc-tls-8080,sc-tls-9187", "sc-tls-9187=open;sc-tls-8080="+long), nil, "-"},
		"removed, and no Service":     {guarded("sc-tls-8080", ""), nil, "-"},
		"it reads no list":            {guarded("", ""), lists("any"), "-"},
		"it has not started":          {&pods.Facts{Template: unique.Make(pods.Template{Guarded: "sc-tls-8080", Labels: "app=web"})}, lists("any"), "-"},
	} {
		d := Decide(Situation{Now: time.Now(), Pod: c.pod, Services: c.services})
		got := "-"
		if d.Admits != nil {
			got = *d.Admits
		}
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.want != "-", d.Writes(), name)
		assert.False(t, d.Wake, name)
	}
}
