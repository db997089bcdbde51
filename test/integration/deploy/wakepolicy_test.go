package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
)

// The words of the policy.
const (
	onlyMounting = "may write only pods that mount the key of a Secret, or ConfigMap servingcert-ca.crt"
	onlyLeaf     = "may write only annotations servingcert.dev/leaf and servingcert.dev/admits of a pod"
	onlyClients  = "may change annotation servingcert.dev/admits only of pods whose proxy reads it"
	onlyHashes   = "may hold only names and hashes"
	noPodMeta    = "may not change a pod's metadata"
	noPodSpec    = "may not change a pod's spec or status"
)

var someHash = strings.Repeat("0a", 32)

// leafPatch is what the rotator writes.
func leafPatch(value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationLeaf, value)
}

// admitsPatch is what the rotator writes when a list of clients has changed.
func admitsPatch(value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationAdmits, value)
}

// readsClients gives a pod a proxy that reads which clients it admits.
func readsClients(pod *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{
		Name: api.ProxyContainer, Image: "example.com/proxy", RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080", "--clients=/clients"},
	}}
}

func keyVolume(items ...corev1.KeyToPath) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls", Items: items}}
}

func bundleVolume(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

// podWith makes a pod with these volumes, in a namespace that is not opted in, and
// changes it.
func podWith(t *testing.T, namespace string, volumes []corev1.VolumeSource, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"who": "me"}},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
	}
	for i, source := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: source})
	}
	for _, change := range changes {
		change(pod)
	}
	admin := adminClient(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), account)), "pods need one")
	require.NoError(t, admin.Create(t.Context(), pod))
	return pod
}

func TestWhatTheRotatorMayChangeOfAPod(t *testing.T) {
	rotator, admin := as(t, "servingcert-rotator"), adminClient(t)
	namespace := newNamespace(t, false)
	patch := func(pod *corev1.Pod, patch string) error {
		return rotator.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
	probe := podWith(t, namespace, []corev1.VolumeSource{keyVolume()})
	denied(t, func() error { return patch(probe, `{"metadata":{"labels":{"a":"b"}}}`) })
	both := "secret/web-tls=" + someHash + ",configmap/servingcert-ca.crt=" + someHash
	for _, test := range []struct{ name, patch, refusal string }{
		{"wake it", leafPatch("secret/web-tls=" + someHash), ""},
		{"wake it for several", leafPatch("secret/api-tls=" + someHash + "," + both), ""},
		{"wake it for the bundle", leafPatch("configmap/servingcert-ca.crt=" + someHash), ""},
		{"its clients", admitsPatch("sc-any-5432=;sc-tls-8080=*/prometheus,any,shop/cart"), ""},
		{"no clients", admitsPatch(""), ""},
		{"clients of no port", admitsPatch("shop/cart"), onlyClients},
		{"a sentence as clients", admitsPatch("sc-tls-8080=hello world"), onlyClients},
		{"its clients away", `{"metadata":{"annotations":{"servingcert.dev/admits":null}}}`, onlyLeaf},
		{"no hash", leafPatch("secret/web-tls=x"), onlyHashes},
		{"a sentence", leafPatch("hello"), onlyHashes},
		{"another ConfigMap", leafPatch("configmap/other=" + someHash), onlyHashes},
		{"nothing", leafPatch(""), onlyHashes},
		{"the annotation away", `{"metadata":{"annotations":{"servingcert.dev/leaf":null}}}`, onlyLeaf},
		{"another annotation", `{"metadata":{"annotations":{"who":"you"}}}`, onlyLeaf},
		{"another annotation beside it", `{"metadata":{"annotations":{"more":"x","servingcert.dev/leaf":"` + both + `"}}}`, onlyLeaf},
		{"another annotation away", `{"metadata":{"annotations":{"who":null}}}`, onlyLeaf},
		{"all annotations", `{"metadata":{"annotations":null}}`, onlyLeaf},
		{"what is done at a rotation", `{"metadata":{"annotations":{"servingcert.dev/on-rotate":"restart"}}}`, onlyLeaf},
		{"a label", `{"metadata":{"labels":{"app":"other"}}}`, noPodMeta},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/stay"]}}`, noPodMeta},
		{"an owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1"}]}}`, noPodMeta},
		{"an image", `{"spec":{"containers":[{"name":"c","image":"example.com/evil"}]}}`, noPodSpec},
		{"a deadline", `{"spec":{"activeDeadlineSeconds":1}}`, noPodSpec},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := podWith(t, namespace, []corev1.VolumeSource{keyVolume()}, func(p *corev1.Pod) {
				p.Annotations[api.AnnotationLeaf], p.Annotations[api.AnnotationAdmits] = "secret/web-tls="+someHash, "sc-tls-8080=watch"
				readsClients(p)
			})
			refusedWith(t, patch(pod, test.patch), test.refusal)
		})
	}
	t.Run("clients of a pod that reads none", func(t *testing.T) {
		refusedWith(t, patch(probe, admitsPatch("sc-tls-8080=shop/cart")), onlyClients)
	})
	t.Run("clients that somebody has removed, of a pod that mounts no Secret", func(t *testing.T) {
		pod := podWith(t, namespace, []corev1.VolumeSource{{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, readsClients)
		require.NoError(t, patch(pod, admitsPatch("sc-tls-8080=shop/cart")))
	})
	t.Run("another pod of that name", func(t *testing.T) {
		err := patch(probe, `{"metadata":{"uid":"0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77","annotations":{"servingcert.dev/leaf":"`+both+`"}}}`)
		assert.ErrorContains(t, err, "metadata.uid: Invalid value")
	})
	t.Run("the status", func(t *testing.T) {
		assert.ErrorContains(t, rotator.Status().Patch(t.Context(), probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`))), `cannot patch resource "pods/status"`)
		_ = patch(probe, `{"status":{"phase":"Failed"}}`)
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(probe), probe))
		assert.Equal(t, corev1.PodPending, probe.Status.Phase)
	})
	t.Run("its subresources and the rest", func(t *testing.T) {
		for subresource, body := range map[string]string{
			"ephemeralcontainers": `{"spec":{"ephemeralContainers":[{"name":"evil","image":"example.com/evil"}]}}`,
			"resize":              `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`,
		} {
			err := rotator.SubResource(subresource).Patch(t.Context(), probe.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(body)))
			assert.ErrorContains(t, err, `cannot patch resource "pods/`+subresource+`"`)
		}
		assert.ErrorContains(t, rotator.Update(t.Context(), probe.DeepCopy()), "cannot update resource")
		assert.ErrorContains(t, rotator.Create(t.Context(), probe.DeepCopy()), "cannot create resource")
	})
	t.Run("somebody else", func(t *testing.T) {
		require.NoError(t, admin.Patch(t.Context(), probe, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	})
}

// A policy sees the pod and not what it mounts.
func TestWhichPodsTheRotatorMayWrite(t *testing.T) {
	rotator, namespace := as(t, "servingcert-rotator"), newNamespace(t, false)
	projected := func(sources ...corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
	}
	secret := func(keys ...string) corev1.VolumeProjection {
		source := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web-tls"}}
		for _, key := range keys {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		return corev1.VolumeProjection{Secret: source}
	}
	configMap := func(name string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	write := func(pod *corev1.Pod) error {
		return rotator.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(leafPatch("secret/web-tls="+someHash))))
	}
	nothing := podWith(t, namespace, nil)
	denied(t, func() error { return write(nothing) })
	type row struct {
		name    string
		volumes []corev1.VolumeSource
		allowed bool
	}
	tests := []row{
		{"nothing", nil, false},
		{"an empty directory", []corev1.VolumeSource{empty}, false},
		{"a Secret", []corev1.VolumeSource{empty, keyVolume()}, true},
		{"the key of a Secret", []corev1.VolumeSource{keyVolume(corev1.KeyToPath{Key: "tls.crt", Path: "a"}, corev1.KeyToPath{Key: "tls.key", Path: "b"})}, true},
		{"another key of a Secret", []corev1.VolumeSource{keyVolume(corev1.KeyToPath{Key: "ca.crt", Path: "a"})}, false},
		{"the bundle", []corev1.VolumeSource{bundleVolume(api.BundleName)}, true},
		{"another ConfigMap", []corev1.VolumeSource{bundleVolume("settings")}, false},
		{"a Secret, projected", []corev1.VolumeSource{projected(configMap("settings"), secret())}, true},
		{"the key of a Secret, projected, as the webhook does", []corev1.VolumeSource{projected(secret("tls.crt", "tls.key"), configMap(api.BundleName))}, true},
		{"another key of a Secret, projected", []corev1.VolumeSource{projected(secret("ca.crt"))}, false},
		{"the bundle, projected", []corev1.VolumeSource{empty, projected(configMap(api.BundleName))}, true},
		{"another ConfigMap, projected", []corev1.VolumeSource{projected(configMap("settings"))}, false},
	}
	for _, file := range formats.Asked().Files() {
		allowed := formats.HoldsPrivateKey(file)
		tests = append(tests,
			row{"file " + file + " of a Secret", []corev1.VolumeSource{keyVolume(corev1.KeyToPath{Key: file, Path: "a"})}, allowed},
			row{"file " + file + " of a Secret, projected", []corev1.VolumeSource{projected(secret("ca.crt"), secret(file))}, allowed})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			refusal := onlyMounting
			if test.allowed {
				refusal = ""
			}
			refusedWith(t, write(podWith(t, namespace, test.volumes)), refusal)
		})
	}
}

// The policy compares whole specs, which costs what the API server allows also for a
// large one.
func TestALargePodCanBeWoken(t *testing.T) {
	rotator := as(t, "servingcert-rotator")
	var volumes []corev1.VolumeSource
	for i := range 200 {
		volumes = append(volumes, bundleVolume(fmt.Sprint("settings-", i)))
	}
	pod := podWith(t, newNamespace(t, false), append(volumes, keyVolume()), func(p *corev1.Pod) {
		for i := range 40 {
			c := corev1.Container{Name: fmt.Sprint("c-", i), Image: "example.com/x"}
			for j := range 150 {
				c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", j), Value: strings.Repeat("v", 60)})
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		for i := range 200 {
			p.Annotations[fmt.Sprint("example.com/note-", i)] = strings.Repeat("n", 500)
		}
	})
	patch := func(patch string) error {
		return rotator.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	denied(t, func() error { return patch(`{"metadata":{"annotations":{"example.com/note-7":"other"}}}`) })
	require.NoError(t, patch(leafPatch("secret/web-tls="+someHash)))
}
