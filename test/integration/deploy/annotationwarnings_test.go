package deploy

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func clientWithWarnings(t *testing.T) (client.Client, *harness.Warnings) {
	t.Helper()
	cfg, w := harness.WithWarnings(cluster.AdminConfig())
	c, err := client.New(cfg, client.Options{})
	require.NoError(t, err)
	return c, w
}

// known are all annotations that mean something, by the kind that they are on.
var known = map[string]map[string]string{
	"Namespace": settings(map[string]string{api.AnnotationFormats: "truststore.p12", api.AnnotationTrust: "true"}),
	"Service": settings(map[string]string{
		api.AnnotationSecretName: "web-tls", api.AnnotationDuration: "1h", api.AnnotationKeyAlgorithm: "ED25519", api.AnnotationExtraDNSNames: "a.example.com",
		api.AnnotationClusterIPs: "true", api.AnnotationRenewAfter: "2026-01-31T12:00:00Z", api.AnnotationCombinedPEM: "true", api.AnnotationBackendTLSPolicy: "true",
		api.AnnotationFormats: "keystore.p12", api.AnnotationKeystorePassword: "s3cret!", api.AnnotationProbe: "443=tls",
	}),
	"Deployment": settings(map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationOnRotate: "none", api.AnnotationTrust: "true", api.AnnotationStatus: "{}", api.AnnotationLeaf: "x"}),
	"ConfigMap":  {api.AnnotationInjectCABundle: "true", api.AnnotationFormats: "truststore.p12", api.AnnotationKeystorePassword: "s3cret!", api.AnnotationTrust: "env"},
	"CA":         {api.AnnotationRotate: "yearly", api.AnnotationRotateMode: "force", api.AnnotationPromoteDespite: "2", api.AnnotationInjectCABundle: "true"},
}

func settings(more map[string]string) map[string]string {
	all := map[string]string{
		api.AnnotationContainers: "web", api.AnnotationMode: "env", api.AnnotationCertFlag: "--c", api.AnnotationKeyFlag: "--k",
		api.AnnotationMountPath: "/certs", api.AnnotationHTTPSProbes: "auto", api.AnnotationProxyProtocol: "8081",
		api.AnnotationProxyResources: "limits.memory=128Mi",
	}
	maps.Copy(all, more)
	return all
}

// TestUnknownAnnotationsAreWarnedAbout: those with our prefix that mean nothing where they
// are, and no others.
func TestUnknownAnnotationsAreWarnedAbout(t *testing.T) {
	c, w := clientWithWarnings(t)
	namespace := newNamespace(t, false)
	for on, annotations := range known {
		create := func(annotations map[string]string) string {
			require.NoError(t, c.Create(t.Context(), makers[on](namespace, annotations), client.DryRunAll), on)
			return w.Take()
		}
		assert.Empty(t, create(annotations), on)
		assert.Empty(t, create(map[string]string{"example.com/mode": "x", "not-servingcert.dev/mode": "x"}), on)
		said := create(map[string]string{api.Domain + "/secretname": "x", api.Domain + "/mods": "y"})
		assert.Contains(t, said, "servingcert.dev/secretname", on)
		assert.Contains(t, said, "servingcert.dev/mods", on)
		for key := range annotations {
			if key != api.AnnotationStatus && key != api.AnnotationLeaf {
				assert.Contains(t, said, key, "%s: what is meant is named", on)
			}
		}
	}
	for _, on := range []string{"StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"} {
		require.NoError(t, c.Create(t.Context(), makers[on](namespace, known["Deployment"]), client.DryRunAll))
		assert.Empty(t, w.Take(), on)
		require.NoError(t, c.Create(t.Context(), makers[on](namespace, map[string]string{api.Domain + "/secretname": "x"}), client.DryRunAll))
		assert.Contains(t, w.Take(), "annotations that mean nothing on a pod: servingcert.dev/secretname;", on)
	}
}

func TestAnAnnotationBesideThePodTemplateIsWarnedAbout(t *testing.T) {
	c, w := clientWithWarnings(t)
	namespace := newNamespace(t, false)
	obj := makers["Deployment"](namespace, nil)
	obj.SetAnnotations(map[string]string{api.AnnotationMode: "wrong"})
	require.NoError(t, c.Create(t.Context(), obj))
	assert.Contains(t, w.Take(), "annotations that mean nothing on a Deployment itself: servingcert.dev/mode; the pod template is where")

	require.NoError(t, c.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	assert.Empty(t, w.Take(), "it was there before")
}

func TestALabelThatOptsNothingInIsWarnedAbout(t *testing.T) {
	c, w := clientWithWarnings(t)
	for value, words := range map[string]string{"enabled": "", "disabled": "", "true": `only "enabled" opts a namespace in`, "Enabled": `only "enabled" opts a namespace in`} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-", Labels: map[string]string{api.LabelInject: value}}}
		require.NoError(t, c.Create(t.Context(), ns, client.DryRunAll))
		if words == "" {
			assert.Empty(t, w.Take(), value)
		} else {
			assert.Contains(t, w.Take(), words, value)
		}
	}
}

// TestPortsThatLookLikeProxiesAreWarnedAbout: exactly those of which analyze warns, and only when
// they are written.
func TestPortsThatLookLikeProxiesAreWarnedAbout(t *testing.T) {
	c, w := clientWithWarnings(t)
	namespace := newNamespace(t, false)
	asking := map[string]map[string]string{
		"nothing": nil, "a Secret": {api.AnnotationSecretName: "web-tls"}, "keys of pods": {api.AnnotationKeySource: "pod"}, "keys of Secrets": {api.AnnotationKeySource: "secret"},
	}
	for _, name := range []string{
		"sc-tls-8080", "sc-any-8080", "sc-tls-http", "sc-any-web-1", "sc-tls-1", "sc-tls-65535", "sc-tls-65536", "sc-tls-99999", "sc-tls-0", "sc-tls-08080",
		"sc-tsl-8080", "sc-tls", "sc-any", "sc-tls8080", "sctls-8080", "cs-tls-8080", "sc-http", "https", "scheduler", "s-c-any-1", "sc-tls-1a", "sc-any-a-b",
	} {
		for what, annotations := range asking {
			svc := makers["Service"](namespace, annotations).(*corev1.Service)
			svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString(name)}, {Name: "http", Port: 80}}
			err := api.CheckProxyPort(svc, svc.Spec.Ports[0], func(string) bool { return false })
			require.NoError(t, c.Create(t.Context(), svc, client.DryRunAll))
			said := w.Take()
			if err == nil {
				assert.Empty(t, said, "%s, with %s", name, what)
				continue
			}
			assert.Contains(t, said, "targetPort "+name+": ", "with %s", what)
			_, must, _ := strings.Cut(err.Error(), "must ")
			assert.Contains(t, said, "must "+must, "%s, with %s", name, what)
		}
	}

	svc := makers["Service"](namespace, map[string]string{api.AnnotationSecretName: "web-tls"}).(*corev1.Service)
	svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-99999")}, {Name: "b", Port: 444, TargetPort: intstr.FromString("sc-tls-8080")}}
	require.NoError(t, c.Create(t.Context(), svc))
	assert.Contains(t, w.Take(), "sc-tls-99999")
	merge := func(patch string) string {
		require.NoError(t, c.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, []byte(patch))))
		return w.Take()
	}
	assert.Empty(t, merge(`{"metadata":{"labels":{"a":"b"}}}`), "it was there before")
	said := merge(`{"metadata":{"annotations":{"servingcert.dev/secret-name":null}}}`)
	assert.Contains(t, said, "targetPort sc-tls-8080: no proxy is added, because the Service does not request a certificate")
	assert.NotContains(t, said, "sc-tls-99999")
	assert.Empty(t, merge(`{"metadata":{"labels":{"a":"c"}}}`))
}

func TestThePodLabelIsChecked(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	for value, refused := range map[string]bool{"enabled": false, "disabled": false, "false": true, "": true} {
		obj := makers["Deployment"](namespace, nil).(*appsv1.Deployment)
		obj.Spec.Template.Labels[api.LabelInject] = value
		_, parserErr := api.ParsePod(&obj.Spec.Template.ObjectMeta)
		err := admin.Create(t.Context(), obj, client.DryRunAll)
		assert.Equal(t, refused, parserErr != nil, "%q: the parser: %v", value, parserErr)
		assert.Equal(t, refused, err != nil, "%q: the policy: %v", value, err)
		if refused {
			assert.ErrorContains(t, err, `label servingcert.dev/inject: must be "disabled" to opt the pod out, or "enabled"`)
		}
	}
}

// TestAnOptedOutTemplateSaysNothing: as for the webhook, whatever its annotations are. They
// count again with the write that takes the label away.
func TestAnOptedOutTemplateSaysNothing(t *testing.T) {
	admin := adminClient(t)
	obj := makers["Deployment"](newNamespace(t, false), map[string]string{api.AnnotationMode: "wrong"}).(*appsv1.Deployment)
	obj.Spec.Template.Labels[api.LabelInject] = api.InjectDisabled
	require.NoError(t, admin.Create(t.Context(), obj))
	remove := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"labels":{%q:null}}}}}`, api.LabelInject))
	refusedWith(t, admin.Patch(t.Context(), obj, remove), oneOfModes)
}

// TestWhatAControllerMakesIsLeftAlone: its author cannot correct it.
func TestWhatAControllerMakesIsLeftAlone(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	yes := true
	for _, on := range []string{"ReplicaSet", "Job"} {
		obj := makers[on](namespace, map[string]string{api.AnnotationMode: "wrong"})
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Owner", Name: "x", UID: "1"}})
		refusedWith(t, admin.Create(t.Context(), obj, client.DryRunAll), oneOfModes)
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Owner", Name: "x", UID: "1", Controller: &yes}})
		require.NoError(t, admin.Create(t.Context(), obj, client.DryRunAll), on)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{api.AnnotationMode: "wrong"}}, Spec: template(nil).Spec}
	harness.Eventually(t, func() error { // until the namespace has its ServiceAccount
		return admin.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)
	})
}

// TestAFieldMayMakeTheAnnotationWrong: the Service was right until its spec changed.
func TestAFieldMayMakeTheAnnotationWrong(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	svc := makers["Service"](namespace, map[string]string{api.AnnotationSecretName: api.ConventionalSecretName}).(*corev1.Service)
	require.NoError(t, admin.Create(t.Context(), svc))
	merge := func(patch string) error {
		return admin.Patch(t.Context(), svc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	refusedWith(t, merge(`{"spec":{"selector":null}}`), hasSelector)
	refusedWith(t, merge(`{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`), outside)
	require.NoError(t, merge(`{"spec":{"selector":{"app":"other"}}}`))
}

// TestAnOperatorMayHaveWarnings: with [Warn] in the bindings, nothing is refused.
func TestAnOperatorMayHaveWarnings(t *testing.T) {
	c, w := clientWithWarnings(t)
	namespace := newNamespace(t, false)
	act := func(action string) {
		var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
		binding.Name = "servingcert-annotations"
		patch := fmt.Appendf(nil, `{"spec":{"validationActions":[%q]}}`, action)
		require.NoError(t, c.Patch(t.Context(), &binding, client.RawPatch(types.MergePatchType, patch)))
	}
	defer func() {
		act("Deny")
		require.NoError(t, deploy.Apply(t.Context(), adminClient(t), owner)) // as others expect to find it
		require.NoError(t, harness.PoliciesInForce(t.Context(), c))
	}()
	act("Warn")
	harness.Eventually(t, func() error {
		return c.Create(t.Context(), makers["Service"](namespace, map[string]string{api.AnnotationMode: "wrong"}), client.DryRunAll)
	})
	assert.Contains(t, w.Take(), "servingcert.dev/mode: "+oneOfModes)
}

// TestTheLargestObjectsAreJudged: with as many and as large annotations as the API server
// takes, the policies still see what is wrong.
func TestTheLargestObjectsAreJudged(t *testing.T) {
	c, w := clientWithWarnings(t)
	namespace := newNamespace(t, false)
	names := strings.TrimSuffix(strings.Repeat(strings.Repeat("a.", 90)+"x,", 100), ",")
	annotations := settings(map[string]string{
		api.AnnotationExtraDNSNames: names, api.AnnotationContainers: strings.TrimSuffix(strings.Repeat(strings.Repeat("c", 63)+",", 100), ","),
		api.AnnotationMountPath: "/" + strings.Repeat("a/", 255), api.AnnotationSecretName: strings.Repeat("a", 253),
	})
	for i := range 9000 {
		annotations[fmt.Sprintf("example.com/note-%d", i)] = "v"
	}
	require.NoError(t, c.Create(t.Context(), makers["Service"](namespace, annotations), client.DryRunAll), "all is right")
	annotations[api.AnnotationOnRotate] = "none" // of pods alone
	annotations[api.AnnotationHTTPSProbes] = "wrong"
	w.Take()
	for _, on := range []string{"Service", "Deployment", "Namespace"} {
		refusedWith(t, c.Create(t.Context(), makers[on](namespace, annotations), client.DryRunAll), `must be "auto", "true" or "false"`)
	}
	assert.Contains(t, w.Take(), "servingcert.dev/on-rotate")
}

// TestNothingIsRefusedThatIsAccepted: of values that are put together from pieces of right
// and wrong ones, the policy refuses none that the parser accepts, with the limits of the
// most permissive signer.
func TestNothingIsRefusedThatIsAccepted(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	limits := api.DefaultLimits()
	limits.MinDuration, limits.MaxDuration, limits.PermitClusterIPs = 15*time.Minute, 1<<63-1, true
	rule, err := api.ParseSuffixRule("*=x", limits.ClusterDomain)
	require.NoError(t, err)
	limits.PermitDNSSuffixes = []api.SuffixRule{rule}
	pieces := map[string][]string{
		api.AnnotationProxyProtocol:  {"1", "0", "65535", "65536", "8081", ",", " ", "\t", "\u00a0", "+", "-", ".", "1e3"},
		api.AnnotationProxyResources: {"requests.cpu=", "limits.cpu=", "limits.memory=", "1", "0.5", "m", "Mi", "64Mi", "200m", ",", " ", "-", "1e3", "="},
		api.AnnotationProbe:          {"443=", "80=", "smtp", "xmpp", "-server", ",", " ", "\t", "\u00a0", "=", "443"},
		api.AnnotationDuration:       {"1", "0", "720", ".", "+", "-", "h", "m", "s", "ms", "µs", "3600000"},
		api.AnnotationExtraDNSNames:  {"a", "x", ".", "*.", "-", ",", " ", "1", "1.2.3.4", "\t", "\u00a0", "Z"},
		api.AnnotationRenewAfter:     {"2026-01-31T12:00:00", "2026-02-29T12:00:00", "2026-01-31T1:00:00", ".5", ",5", "Z", "+01:00", "-24:60"},
		api.AnnotationSecretName:     {"a", "b1", ".", "-", "_", "A", "ä"},
		api.AnnotationMountPath:      {"/", "a", ".", "..", "etc", "dev", "ü", ":", " ", "sys"},
		api.AnnotationContainers:     {"a", "-", ",", " ", "1", ".", "\n"},
		api.AnnotationCertFlag:       {"-", "--", "a", "1", ".", "_", "tls-private-key-file", "="},
	}
	for key, pieces := range pieces {
		t.Run(strings.TrimPrefix(key, api.Domain+"/"), func(t *testing.T) {
			accepted, refused := 0, 0
			rapid.Check(t, func(r *rapid.T) {
				value := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 5).Draw(r, "pieces"), "")
				obj := makers["Service"](namespace, map[string]string{key: value})
				errs := parse(obj, limits)
				err := admin.Create(t.Context(), obj, client.DryRunAll)
				if len(errs) == 0 {
					accepted++
					require.NoError(r, err, "%q", value)
				} else if err != nil {
					refused++
				}
			})
			t.Logf("both accepted %d, both refused %d", accepted, refused)
		})
	}
}
