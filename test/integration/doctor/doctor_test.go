package doctor

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestDoctor takes a cluster from nothing to a healthy installation, and then breaks it.
func TestDoctor(t *testing.T) {
	t.Run("before", before)
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))

	// It waits for four programs and a Secret, each of which may take as long as a test waits for one.
	cmd, out, errs := command(t, plane.KubeconfigFile(), "--wait", "--timeout", (2 * harness.Soon).String(), "--create-namespace")
	require.NoError(t, cmd.Start())
	harness.Eventually(t, func() error {
		if !strings.Contains(errs.String(), "waiting: ") {
			return fmt.Errorf("it does not say what is missing: %q", errs.String())
		}
		return nil
	})
	start(t, "signer")
	stopTrust := start(t, "trust")
	start(t, "rotator")
	served, err := harness.WebhookFlags(t.Context(), admin, filepath.Join(dir, "certs"))
	require.NoError(t, err)
	stopWebhook := start(t, "webhook", served...)
	allReady(t)
	require.NoError(t, cmd.Wait(), out.String()+errs.String())
	assert.Contains(t, errs.String(), "SC202 Deployment servingcert-system/servingcert-signer")
	assert.Regexp(t, `(?m)^ok +SC209 `, out.String(), "the webhook was reached from a namespace of its own")
	assert.Regexp(t, `(?m)^0 errors, \d+ warnings?, \d+ checks passed$`, out.String())
	var own corev1.NamespaceList
	require.NoError(t, admin.List(t.Context(), &own, client.MatchingLabels{api.LabelInject: api.InjectEnabled}))
	for _, ns := range own.Items {
		assert.False(t, strings.HasPrefix(ns.Name, "servingcert-doctor-") && ns.DeletionTimestamp == nil, "%s is left", ns.Name)
	}

	t.Run("healthy", healthy)
	t.Run("who may look", lookers)
	t.Run("Services and workloads", tenants)
	t.Run("a user with few rights", fewRights)
	t.Run("the webhook is away", func(t *testing.T) {
		stopWebhook()
		finds(t, doctor.Error, doctor.WebhookReached, "failed calling webhook")
	})
	t.Run("the rotator is away", func(t *testing.T) {
		stopTrust()
		finds(t, doctor.Error, doctor.Leases, "has not renewed it")
		setCABundle(t, nil)
		finds(t, doctor.Error, doctor.CABundle, "has no caBundle")
	})
}

// finds waits until doctor finds it, and ends with 1 if it is an error. With --errors-only, errors alone are found.
func finds(t *testing.T, level doctor.Level, id doctor.ID, text string, args ...string) {
	t.Helper()
	harness.Eventually(t, func() error {
		r, code := examined(t, args...)
		if !has(r, level, id, text) {
			return fmt.Errorf("%s %s %q is not found, but\n%s", level, id, text, texts(r))
		}
		if level == doctor.Error && code != 1 {
			return fmt.Errorf("it ends with %d", code)
		}
		if r, _ := examined(t, append(args, "--errors-only")...); has(r, level, id, text) != (level == doctor.Error) {
			return fmt.Errorf("with --errors-only, it finds\n%s", texts(r))
		}
		return nil
	})
}

func before(t *testing.T) {
	r, code := examined(t, "--pre")
	assert.Zero(t, code, texts(r))
	assert.Zero(t, r.Errors+r.Warnings, texts(r))
	assert.True(t, has(r, doctor.OK, doctor.PoliciesServed, ""))

	r, code = examined(t)
	assert.Equal(t, 1, code)
	assert.Len(t, r.Findings, 1, texts(r))
	assert.True(t, has(r, doctor.Error, doctor.Installed, "Namespace servingcert-system: servingcert is not installed: none of its Deployments exists"), texts(r))

	cfg, err := plane.UserConfig("nobody-special")
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cfg))
	got := runAs(t, kubeconfig, "--pre")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.out, "error   SC102\n        you may not create clusterroles.rbac.authorization.k8s.io\n")
	assert.Contains(t, got.out, "; ResourceQuotas in servingcert-system; LimitRanges in servingcert-system\n")

	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}}}
	limit := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "small"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}}}}}
	require.NoError(t, admin.Create(t.Context(), quota))
	require.NoError(t, admin.Create(t.Context(), limit))
	finds(t, doctor.Error, doctor.Quota, "pods: 5 left, but the pods need 8", "--pre")
	finds(t, doctor.Error, doctor.LimitRanges, "container signer has limit 256Mi", "--pre")
	require.NoError(t, admin.Delete(t.Context(), quota))
	require.NoError(t, admin.Delete(t.Context(), limit))
}

func healthy(t *testing.T) {
	harness.NewNamespace(t, admin, "shop", true)
	harness.Eventually(t, func() error {
		r, code := examined(t)
		if code != 0 || !has(r, doctor.OK, doctor.WebhookReached, "") || !has(r, doctor.OK, doctor.CABundle, "") {
			return fmt.Errorf("it ends with %d:\n%s", code, texts(r))
		}
		return nil
	})
	assert.Regexp(t, `^0 errors, \d+ warnings?, \d+ checks passed\n$`, runAs(t, plane.KubeconfigFile(), "--errors-only").out)
	var pods corev1.PodList
	require.NoError(t, admin.List(t.Context(), &pods, client.InNamespace("shop")))
	assert.Empty(t, pods.Items, "the dry run has left a pod")
}

// mistakes are those that people make in a namespace of their own, for whose discovery the cluster is read:
// what else doctor judges Services and workloads by has rows in pkg/doctor.
var mistakes = []struct {
	name  string
	make  func(t *testing.T, ns string)
	level doctor.Level
	id    doctor.ID
	text  string
}{
	{"noted", func(t *testing.T, ns string) {
		t.Helper()
		harness.NewService(t, admin, ns, "web")
		patch(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}, `{"spec":{"ports":[{"port":443,"targetPort":"https"}]}}`)
		newPod(t, ns, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	}, doctor.Warning, doctor.NoConsumers, `; the webhook noted on pods of Pod web: "NotServing: no container declares the target port of the Service (Service web: targetPort https)`},
	{"proxy-not-asked", func(t *testing.T, ns string) {
		t.Helper()
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}},
		}}
		require.NoError(t, admin.Create(t.Context(), svc))
	}, doctor.Warning, doctor.TLSPorts, "Service proxy-not-asked/web: port https: targetPort: \"sc-tls-8080\": no proxy is added"},
	{"subpath", func(t *testing.T, ns string) {
		t.Helper()
		harness.NewService(t, admin, ns, "web")
		newPod(t, ns, func(p *corev1.Pod) {
			p.Labels = map[string]string{api.LabelInject: api.InjectDisabled}
			p.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/web.crt", SubPath: "tls.crt"}}
		})
	}, doctor.Warning, doctor.SubPath, "container web mounts Secret web-tls at /web.crt by subPath"},
	{"missed", func(t *testing.T, ns string) {
		t.Helper()
		newPod(t, ns, func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 443}}
		})
		harness.NewService(t, admin, ns, "web") // later
	}, doctor.Warning, doctor.Missed, "Pod missed/web: 1 of its pods run without the certificate"},
}

// tenants makes the mistakes, and sees each named.
func tenants(t *testing.T) {
	for _, c := range mistakes {
		t.Run(c.name, func(t *testing.T) {
			harness.NewNamespace(t, admin, c.name, true)
			c.make(t, c.name)
			finds(t, c.level, c.id, c.text, "-n", c.name)
		})
	}
}

func fewRights(t *testing.T) {
	cfg, err := plane.UserConfig("viewer")
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cfg))
	r := runAs(t, kubeconfig)
	assert.Equal(t, 2, r.code, r.out+r.err)
	assert.Equal(t, 1, strings.Count(r.out, "SC001\n"), "one cause, one finding:\n%s", r.out)
	assert.Contains(t, r.err, "no check could run: this user may not read what the checks need")

	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list"}},
		},
	}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "viewer"}},
	}))
	harness.Eventually(t, func() error { // RBAC follows in a moment
		if r = runAs(t, kubeconfig); r.code != 0 {
			return fmt.Errorf("it ends with %d: %s%s", r.code, r.out, r.err)
		}
		return nil
	})
	assert.Equal(t, 1, runAs(t, kubeconfig, "--strict").code)
	assert.Contains(t, r.out, "warning SC001\n        this user may not read ")
	assert.NotContains(t, r.out, "SC203", "a check that was not made is not ok")
	assert.NotContains(t, r.out, "SC210", "a check that was not made is not ok")

	for _, flag := range []string{"--namespace", "--dry-run-namespace"} {
		r = runAs(t, plane.KubeconfigFile(), flag, "not-there")
		assert.Equal(t, 2, r.code, r.out+r.err)
		assert.Contains(t, r.err, flag+` "not-there": the namespace does not exist`)
	}
	r = runAs(t, filepath.Join(t.TempDir(), "none"))
	assert.Equal(t, 2, r.code, r.err)
}

func configuration(t *testing.T) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "servingcert"}, config))
	return config
}

func setCABundle(t *testing.T, bundle []byte) {
	t.Helper()
	config := configuration(t)
	config.Webhooks[0].ClientConfig.CABundle = bundle
	require.NoError(t, admin.Update(t.Context(), config))
}

func patch(t *testing.T, obj client.Object, merge string) {
	t.Helper()
	require.NoError(t, admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(merge))))
}

func newPod(t *testing.T, namespace string, change func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	change(pod)
	harness.Eventually(t, func() error { return admin.Create(t.Context(), pod) })
}
