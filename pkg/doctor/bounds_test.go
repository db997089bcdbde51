package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/preview"
)

// TestValuesAtTheirBoundsPass: a value at its limit is not a finding.
func TestValuesAtTheirBoundsPass(t *testing.T) {
	for name, change := range map[string]func(f *Facts){
		"the oldest server":     func(f *Facts) { f.Platform.Version, f.Platform.Minor = "v1.30.0", oldestMinor },
		"a later major version": func(f *Facts) { f.Platform.Version, f.Platform.Major, f.Platform.Minor = "v2.0.0", 2, 0 },
		"the largest skew":      func(f *Facts) { f.Installation.Skew = maxSkew },
		"a lease that has just been renewed": func(f *Facts) {
			renewed := metav1.NewMicroTime(noon.Add(-15 * time.Second))
			f.Installation.Leases["servingcert-rotator"].Spec.RenewTime = &renewed
		},
		"a lease without a duration": func(f *Facts) {
			spec := &f.Installation.Leases["servingcert-rotator"].Spec
			renewed := metav1.NewMicroTime(noon.Add(-15 * time.Second))
			spec.LeaseDurationSeconds, spec.RenewTime = nil, &renewed
		},
		"a longer lease": func(f *Facts) {
			spec := &f.Installation.Leases["servingcert-rotator"].Spec
			seconds, renewed := int32(60), metav1.NewMicroTime(noon.Add(-59*time.Second))
			spec.LeaseDurationSeconds, spec.RenewTime = &seconds, &renewed
		},
		"a maximum that is reached": func(f *Facts) { f.Platform.LimitRanges = limits(corev1.LimitRangeItem{Max: list("memory", "256Mi")}) },
		"a minimum that is met":     func(f *Facts) { f.Platform.LimitRanges = limits(corev1.LimitRangeItem{Min: list("cpu", "50m")}) },
		"images by digest": func(f *Facts) {
			for i := range f.Installation.Pods {
				f.Installation.Pods[i].Spec.Containers[0].Image = fmt.Sprint("registry:5000/x@sha256:", i)
			}
		},
		"images without a tag": func(f *Facts) {
			for i := range f.Installation.Pods {
				f.Installation.Pods[i].Spec.Containers[0].Image = "registry:5000/x"
			}
		},
		"a Service in a namespace that is opted out": func(f *Facts) {
			f.Namespaces[0].Labels[api.LabelInject] = api.InjectDisabled
			service(f).Annotations, service(f).Status.Conditions, f.Namespaces[0].Workloads = nil, nil, nil
			service(f).Spec.Selector = nil
		},
	} {
		f := healthy(t)
		change(&f)
		for _, found := range f.Examine(noon).AtLeast(Info) {
			t.Errorf("%s: %s %s: %s", name, found.ID, found.Object, found.Message)
		}
	}
}

func TestVersionsOfImages(t *testing.T) {
	for image, want := range map[string]string{
		"signer:v1": "v1", "registry:5000/signer": "latest", "registry:5000/signer:v2": "v2", "signer": "latest",
		"registry:5000/signer@sha256:00": "by digest", "signer:v1@sha256:00": "v1",
	} {
		assert.Equal(t, want, versionOf(image), image)
	}
}

// TestLongListsAreShortened: the rest is counted.
func TestLongListsAreShortened(t *testing.T) {
	f := Facts{}
	for i := range maxForbidden {
		f.Failures = append(f.Failures, Failure{What: fmt.Sprint("r", i), Why: "forbidden", Kind: ReadForbidden, Checks: nil})
	}
	require.Len(t, f.unread(), 1)
	assert.NotContains(t, f.unread()[0].Message, "more")

	s := &State{Trust: &api.TrustStatus{Pending: 3, Refusing: maxTargets}}
	for i := range maxTargets + 2 {
		s.Trust.NotHolding = append(s.Trust.NotHolding, api.TrustTarget{Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("x", i), Reason: "Forbidden"})
	}
	found := s.trust()
	require.Len(t, found, maxTargets+1)
	assert.Equal(t, "3 more targets do not hold the bundle", found[maxTargets].Message)
}

// TestFixNamesTheProxy: only if the proxy terminates TLS at all TLS ports of the Service.
func TestFixNamesTheProxy(t *testing.T) {
	port := func(name string, number int32, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: target}
	}
	proxy, own := port("https", 443, intstr.FromString("sc-tls-8080")), port("https-api", 8443, intstr.FromInt32(8443))
	for name, tt := range map[string]struct {
		ports []corev1.ServicePort
		proxy bool
	}{
		"the proxy alone": {[]corev1.ServicePort{proxy}, true},
		"both":            {[]corev1.ServicePort{proxy, own}, false},
		"the program":     {[]corev1.ServicePort{own}, false},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.ServiceSpec{Ports: tt.ports}}
		f := byProxy(svc, found(Stale, "", "x"))
		assert.Equal(t, tt.proxy, strings.Contains(f.Fix, "kubectl logs POD -n shop -c servingcert-proxy"), name)
	}
}

// TestChecksOfManifests: only checks that need no cluster are made.
func TestChecksOfManifests(t *testing.T) {
	ids := offline()
	assert.Contains(t, ids, SubPath)
	assert.NotContains(t, ids, ServerVersion)
}

// TestOpenShiftInManifests: its annotations count if the installation supports them.
func TestOpenShiftInManifests(t *testing.T) {
	const text = `{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {service.beta.openshift.io/serving-cert-secret-name: Web_TLS}}, spec: {selector: {app: web}, ports: [{port: 443}]}}`
	for supported, want := range map[bool]int{true: 1, false: 0} {
		docs, err := preview.Parse("a.yaml", []byte(text))
		require.NoError(t, err)
		r, err := Analyze(t.Context(), docs, Options{OpenShift: supported, Limits: api.DefaultLimits()})
		require.NoError(t, err)
		assert.Equal(t, want, r.Errors, "%v: %v", supported, lines(r))
	}
}

// TestAnnotationsOfTheCAsStatus: they are known on that ConfigMap only.
func TestAnnotationsOfTheCAsStatus(t *testing.T) {
	const text = `{apiVersion: v1, kind: %s, metadata: {name: servingcert-ca-status, namespace: servingcert-system, annotations: {%s: x}}}`
	for _, key := range api.OnCAStatus.Annotations() {
		for kind, known := range map[string]bool{"ConfigMap": true, "Role": false} {
			docs, err := preview.Parse("a.yaml", []byte(fmt.Sprintf(text, kind, key)))
			require.NoError(t, err)
			r, err := Analyze(t.Context(), docs, Options{Limits: api.DefaultLimits()})
			require.NoError(t, err)
			assert.Equal(t, known, len(r.AtLeast(Info)) == 0, "%s %s: %s", kind, key, lines(r))
		}
	}
}

// TestSelectsNothing: without workloads in the manifests, it is unknown what a Service selects.
func TestSelectsNothing(t *testing.T) {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	other := Workload{Kind: "Deployment"}
	assert.False(t, Namespace{}.selectsNothing(svc))
	assert.True(t, Namespace{Live: true}.selectsNothing(svc))
	assert.True(t, Namespace{Workloads: []Workload{other}}.selectsNothing(svc))
	assert.False(t, Namespace{Live: true}.selectsNothing(&corev1.Service{}))
}

// TestPodKeysThatAreRefused: each request is checked on its own, because Services share no Secret.
func TestPodKeysThatAreRefused(t *testing.T) {
	n := Namespace{Name: "shop", Limits: api.DefaultLimits(), Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Annotations: map[string]string{api.AnnotationKeySource: string(api.KeySourcePod), api.AnnotationDuration: "1s"},
	}}}}
	require.Len(t, n.requests(), 1)
	assert.Equal(t, "Service shop/web", n.requests()[0].Object)
	n.Services[0].Annotations = map[string]string{api.AnnotationDuration: "1s"}
	assert.Empty(t, n.requests(), "it has no request")
}

// TestSuggestions: the most similar key, if it is similar enough.
func TestSuggestions(t *testing.T) {
	for _, tt := range []struct {
		text string
		keys []string
		want string
	}{
		{"abcdef", []string{"abcdxx"}, "abcdxx"}, // a third of its letters
		{"abcdef", []string{"abcxxx"}, ""},
		{"abcdef", []string{"abcdxx", "abcdex"}, "abcdex"},
		{"abcdef", []string{"abcdex", "abcdxx"}, "abcdex"},
		{"abcdef", []string{"abcdey", "abcdex"}, "abcdey"},
		{"abcdef", []string{"abcdef", "abcdex"}, "abcdef"},
		{"a", []string{"b"}, "b"},
		{"a", []string{"bc"}, ""},
	} {
		assert.Equal(t, tt.want, Suggest(tt.text, tt.keys), "%v", tt)
	}
}

// TestWhatAVolumeHolds: Secrets that a Service or the pod names, the bundle, and pod certificates.
func TestWhatAVolumeHolds(t *testing.T) {
	n := Namespace{Services: []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
	}}
	w := Workload{}
	w.Template.Annotations = map[string]string{api.AnnotationSecretName: "pod-tls"}
	secret := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
	}
	projected := func(sources ...corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
	}
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	configMap := corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("other")}}
	for name, tt := range map[string]struct {
		volume corev1.VolumeSource
		want   string
	}{
		"a Service's":       {secret("web-tls"), "Secret web-tls"},
		"the pod's":         {secret("pod-tls"), "Secret pod-tls"},
		"the usual one":     {secret(api.ConventionalSecretName), "Secret " + api.ConventionalSecretName},
		"another":           {secret("other"), ""},
		"none":              {secret(""), ""},
		"the bundle":        {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named(api.BundleName)}}, "ConfigMap " + api.BundleName},
		"another ConfigMap": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("x")}}, ""},
		"projected Secret":  {projected(configMap, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named("web-tls")}}), "Secret web-tls"},
		"projected other":   {projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named("other")}}, configMap), ""},
		"keys of pods":      {projected(configMap, corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}}), "the certificate of the pod's own key"},
		"identities":        {projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.ClientSignerName}}), "the identity of the pod"},
		"keys of others":    {projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/other"}}), ""},
		"something else":    {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, ""},
	} {
		assert.Equal(t, tt.want, n.holds(&corev1.Volume{VolumeSource: tt.volume}, w), name)
	}
}

// TestHowMissedPodsAreReplaced: a command is shown only for kinds that can be restarted.
func TestHowMissedPodsAreReplaced(t *testing.T) {
	for kind, want := range map[string]bool{"Deployment": true, "Job": false} {
		n := Namespace{Name: "shop", Missed: map[string]int{kind + " web": 1}, Drifted: map[string]Drifted{kind + " web": {Pods: 1}}}
		out := n.workload(Workload{Kind: kind, Name: "web"})
		require.Len(t, out, 2)
		for _, f := range out {
			assert.Equal(t, want, strings.Contains(f.Fix, "kubectl rollout restart deployment/web -n shop"), f.Fix)
		}
	}
}

// TestARestartIsNoRemedyIfNewPodsWouldNotConnect: the Service has to be corrected first.
func TestARestartIsNoRemedyIfNewPodsWouldNotConnect(t *testing.T) {
	n := Namespace{Name: "shop", Drifted: map[string]Drifted{"Deployment web": {Pods: 1, What: []string{"x"}, LeftOut: true}}}
	out := n.workload(Workload{Kind: "Deployment", Name: "web"})
	require.Len(t, out, 1)
	assert.Equal(t, "Correct that before you restart the workload: calls of new pods would not go through the proxy.", out[0].Fix)
}

// TestFixOfRefusedPods: if a Service requests a proxy, reducing its resources is suggested.
func TestFixOfRefusedPods(t *testing.T) {
	w := Workload{Kind: "Deployment", Name: "web", Failure: "exceeded quota: compute"}
	w.Template.Labels = map[string]string{"app": "web"}
	for target, want := range map[string]bool{"sc-tls-8080": true, "sc-any-http": true, "https": false} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
		svc.Spec.Selector, svc.Spec.Ports = w.Template.Labels, []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString(target)}}
		out := Namespace{Name: "shop", Services: []*corev1.Service{svc}}.workload(w)
		require.Len(t, out, 1)
		assert.Equal(t, `its pods are not created: "exceeded quota: compute"`, out[0].Message)
		assert.Equal(t, want, strings.Contains(out[0].Fix, api.AnnotationProxyResources), target)
	}
}
