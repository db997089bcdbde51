package pods

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestFactsAreShared(t *testing.T) {
	ofWorkload := func(name string, change func(*corev1.Pod)) *Facts {
		return FactsOf(rotatortest.Pod(func(p *corev1.Pod) {
			p.Name, p.UID, p.OwnerReferences = name, "u", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", "web")}
			p.ResourceVersion = name
			if change != nil {
				change(p)
			}
		}))
	}
	a, b := ofWorkload("a", nil), ofWorkload("b", func(p *corev1.Pod) {
		p.Annotations["prometheus.io/scrape"], p.Status.PodIP, p.Spec.NodeName = "true", "10.0.0.7", "node-7"
		p.Status.Phase = corev1.PodPending
	})
	assert.Equal(t, a.Template, b.Template, "what is nobody's concern makes no difference")
	assert.Equal(t, "a b", a.Name+" "+b.Name)
	assert.Equal(t, "a b", a.ResourceVersion+" "+b.ResourceVersion)
	assert.Empty(t, a.UID, "of use for bare pods only")
	assert.Equal(t, "uid-of-web", string(FactsOf(rotatortest.Pod(nil)).UID))
	for name, change := range map[string]func(*corev1.Pod){
		"label":   rotatortest.Label("x", "y"),
		"secret":  rotatortest.Annotation(api.AnnotationSecretName, "mine"),
		"mistake": rotatortest.Annotation(api.AnnotationMode, "flags"),
		"status":  rotatortest.Annotation(api.AnnotationStatus, `{"secret":"web-tls","reason":"x"}`),
		"volume":  rotatortest.SecretVolume("web-tls"),
		"ended":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"owner":   func(p *corev1.Pod) { p.OwnerReferences = nil },
		"place":   func(p *corev1.Pod) { p.Namespace = "other" },
		"port":    rotatortest.WithPort,
	} {
		assert.NotEqual(t, a.Template, ofWorkload("a", change).Template, name)
	}
}

func TestFactsAreAnObject(t *testing.T) {
	now := metav1.Now()
	f := FactsOf(rotatortest.Pod(func(p *corev1.Pod) { p.DeletionTimestamp = &now }))
	got, ok := f.DeepCopyObject().(*Facts)
	require.True(t, ok)
	assert.Equal(t, f, got)
	assert.NotSame(t, f.DeletionTimestamp, got.DeletionTimestamp)
}

func TestLabelsSurvive(t *testing.T) {
	const name = `[A-Za-z0-9]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9])?`
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOf(rapid.StringMatching(`([a-z]{1,9}\.[a-z]{1,9}/)?`+name), rapid.StringMatching(`(`+name+`)?`)).Draw(t, "labels")
		encoded := encodeLabels(labels)
		got := decodeLabels(encoded)
		require.Len(t, got, len(labels))
		for k, v := range labels {
			require.Equal(t, v, got[k])
		}
		require.Equal(t, encoded, encodeLabels(got))
	})
}

func TestWorkloads(t *testing.T) {
	const restart = "restart it: kubectl rollout restart "
	const deletePods = "delete its pods one by one; their controller replaces them: kubectl delete pod web-x -n shop"
	tests := []struct {
		name   string
		hash   string
		owners []metav1.OwnerReference
		want   Workload
		advice string
	}{
		{"bare", "", nil, Workload{}, "recreate it"},
		{"owned and not controlled", "", []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}}, Workload{}, "recreate it"},
		{"Deployment", "5d9c", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "web-5d9c")}, Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, restart + "deployment/web -n shop"},
		{"ReplicaSet by hand", "", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "web")}, Workload{"apps/v1", "ReplicaSet", "web", "u"}, deletePods},
		{"ReplicaSet with a name of its own", "5d9c", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "web5d9c")}, Workload{"apps/v1", "ReplicaSet", "web5d9c", "u"}, deletePods},
		{"hash alone", "5d9c", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "-5d9c")}, Workload{"apps/v1", "ReplicaSet", "-5d9c", "u"}, deletePods},
		{"StatefulSet", "", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", "db")}, Workload{"apps/v1", "StatefulSet", "db", "u"}, restart + "statefulset/db -n shop"},
		{"DaemonSet", "", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "DaemonSet", "agent")}, Workload{"apps/v1", "DaemonSet", "agent", "u"}, restart + "daemonset/agent -n shop"},
		{"another's StatefulSet", "", []metav1.OwnerReference{rotatortest.ControlledBy("apps.example.com/v1", "StatefulSet", "db")}, Workload{"apps.example.com/v1", "StatefulSet", "db", "u"}, deletePods},
		{"Job", "", []metav1.OwnerReference{rotatortest.ControlledBy("batch/v1", "Job", "run")}, Workload{"batch/v1", "Job", "run", "u"}, "delete it and create it again (the next Job of a CronJob is injected automatically)"},
		{"the controller of several owners", "", []metav1.OwnerReference{{Kind: "X"}, rotatortest.ControlledBy("apps/v1", "DaemonSet", "agent")}, Workload{"apps/v1", "DaemonSet", "agent", "u"}, restart + "daemonset/agent -n shop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := rotatortest.Pod(func(p *corev1.Pod) { p.OwnerReferences = tt.owners })
			if tt.hash != "" {
				pod.Labels["pod-template-hash"] = tt.hash
			}
			got := FactsOf(pod).Template.Value().Workload
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.advice, got.Advice("shop", "web-x"))
		})
	}
}

func TestReady(t *testing.T) {
	ready := rotatortest.All(rotatortest.SecretVolume("web-tls"), func(p *corev1.Pod) {
		p.UID, p.Status.PodIP, p.Status.Phase = "u", "10.0.0.7", corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"ready", func(*corev1.Pod) {}, true},
		{"IPv6", func(p *corev1.Pod) { p.Status.PodIP = "fd00::7" }, true},
		{"no address", func(p *corev1.Pod) { p.Status.PodIP = "" }, false},
		{"no such address", func(p *corev1.Pod) { p.Status.PodIP = "ten" }, false},
		{"pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		{"not ready", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, false},
		{"no condition", func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }, false},
		{"mounts nothing", func(p *corev1.Pod) { p.Spec.Volumes = nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := FactsOf(rotatortest.Pod(rotatortest.All(ready, tt.change)))
			assert.Equal(t, tt.want, f.Ready)
			require.Equal(t, FactsOf(rotatortest.Pod(rotatortest.SecretVolume("web-tls"))).Template == f.Template, tt.name != "mounts nothing", "that is no matter of the template")
		})
	}
}

func TestFactsForWaking(t *testing.T) {
	workload := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", "web")}
		p.CreationTimestamp = metav1.NewTime(rotatortest.Noon)
	}
	leaf := rotatortest.Annotation(api.AnnotationLeaf, "said")
	for _, tt := range []struct {
		name           string
		change         rotatortest.Change
		bundle, follow bool
	}{
		{"nothing of ours", nil, false, false},
		{"a Secret", rotatortest.SecretVolume("web-tls"), false, true},
		{"the key of a Secret", rotatortest.SecretVolume("web-tls", "tls.crt", "tls.key"), false, true},
		{"the key and the chain in one file", rotatortest.SecretVolume("web-tls", api.CombinedKey), false, true},
		{"the same, projected", rotatortest.ProjectedVolume("web-tls", api.CombinedKey), false, true},
		{"other keys of a Secret", rotatortest.SecretVolume("web-tls", "ca.crt", "tls.crt"), false, false},
		{"the bundle", rotatortest.BundleVolume(), true, true},
		{"the bundle's key", rotatortest.BundleVolume("ca.crt"), true, true},
		{"another key of it", rotatortest.BundleVolume("other"), false, false},
		{"another ConfigMap", rotatortest.All(rotatortest.BundleVolume(), func(p *corev1.Pod) { p.Spec.Volumes[0].ConfigMap.Name = "x" }), false, false},
		{"both in one volume", func(p *corev1.Pod) {
			rotatortest.ProjectedVolume("web-tls")(p)
			p.Spec.Volumes[0].Projected.Sources[0].ConfigMap.Name = api.BundleName
		}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := FactsOf(rotatortest.Pod(workload, tt.change, leaf))
			assert.Equal(t, tt.bundle, f.Template.Value().Bundle)
			assert.Equal(t, tt.follow, f.UID != "" && !f.CreationTimestamp.IsZero() && f.Running && f.Leaf() == "said")
			assert.Equal(t, tt.follow, f.UID != "" || !f.CreationTimestamp.IsZero() || f.Running || f.Leaf() != "", "all or nothing")
			assert.Equal(t, f.Template, FactsOf(rotatortest.Pod(workload, tt.change)).Template, "that is no matter of the template")
			assert.False(t, FactsOf(rotatortest.Pod(workload, tt.change, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })).Running)
		})
	}
}

// A container that mounts the private key under any name serves.
func TestPortsOfAContainerWithTheKey(t *testing.T) {
	for key, want := range map[string][]string{"tls.key": {"web-tls"}, api.CombinedKey: {"web-tls"}, "tls.crt": nil} {
		f := FactsOf(rotatortest.Pod(rotatortest.ProjectedVolume("web-tls", key), func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{
				Ports:        []corev1.ContainerPort{{Name: "db", ContainerPort: 27017}},
				VolumeMounts: []corev1.VolumeMount{{Name: p.Spec.Volumes[0].Name, MountPath: "/tls"}},
			}}
		}))
		assert.Equal(t, []Port{{"db", 27017, want}}, f.Template.Value().TCPPorts(), key)
	}
}

// A StatefulSet gives each pod a name below a headless Service. It is only kept for a pod with its
// own key.
func TestThePodsOwnName(t *testing.T) {
	named := func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "web-0", "web" }
	unnamed := func(p *corev1.Pod) { p.Spec.Hostname = "web-0" }
	own := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}}},
		}}}}
	}
	pod := FactsOf(rotatortest.Pod(own, named)).Template.Value().Pod()
	assert.Equal(t, "web-0", pod.Spec.Hostname)
	assert.Equal(t, "web", pod.Spec.Subdomain)
	for _, change := range []rotatortest.Change{rotatortest.All(own, unnamed), rotatortest.All(rotatortest.SecretVolume("web-tls"), named), named} {
		template := FactsOf(rotatortest.Pod(change)).Template.Value()
		assert.Empty(t, template.Hostname+template.Subdomain)
	}
}

// TestNothingIsRestartedForAProxy: the pod's on-rotate annotation is for programs that mount the
// key themselves.
func TestNothingIsRestartedForAProxy(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	mount := []corev1.VolumeMount{{Name: "pair", MountPath: "/etc/servingcert"}}
	secret := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web-tls"}}}}}}
	podKey := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}}}}}
	for _, source := range []corev1.VolumeSource{secret, podKey} {
		proxied := func(p *corev1.Pod) {
			p.Annotations[api.AnnotationOnRotate] = "restart"
			p.Spec.Volumes = []corev1.Volume{{Name: "pair", VolumeSource: source}}
			p.Spec.Containers = []corev1.Container{{Name: "web"}}
			p.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080"}, VolumeMounts: mount}}
		}
		assert.Equal(t, api.OnRotateReload, FactsOf(rotatortest.Pod(proxied)).Template.Value().OnRotate)
		identity := func(p *corev1.Pod) { // of another signer
			other := corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/client"}}
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "identity", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{other}}}})
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "identity", MountPath: "/identity"}}
		}
		assert.Equal(t, api.OnRotateReload, FactsOf(rotatortest.Pod(rotatortest.All(proxied, identity))).Template.Value().OnRotate)
		for why, change := range map[string]func(*corev1.Pod){
			"a program has the key":    func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = mount },
			"it is a container's name": func(p *corev1.Pod) { p.Spec.InitContainers[0].Args = nil },
		} {
			pod := rotatortest.Pod(proxied)
			change(pod)
			assert.Equal(t, api.OnRotateRestart, FactsOf(pod).Template.Value().OnRotate, why)
		}
	}
}

func TestMirrorPodHasFactsOfMountingPod(t *testing.T) {
	f := FactsOf(rotatortest.ReadyPod("kube-scheduler-cp-1", "", rotatortest.Mirror("cp-1"), rotatortest.Annotation(api.AnnotationOnRotate, "restart")))
	got := f.Template.Value()
	assert.True(t, got.Mirror())
	assert.Equal(t, api.OnRotateReload, got.OnRotate, "only its node can restart it")
	assert.True(t, got.Workload.Node())
	assert.Equal(t, "Node cp-1", got.Workload.String())
	assert.Empty(t, f.Keys())
	assert.True(t, f.Ready && f.Running && f.HostNetwork && f.OnNode)
	assert.Equal(t, "10.0.0.7 uid-of-kube-scheduler-cp-1", f.IP.String()+" "+string(f.UID))

	f = FactsOf(rotatortest.ReadyPod("forged", "", rotatortest.Annotation(corev1.MirrorPodAnnotationKey, "x")))
	assert.False(t, f.Template.Value().Mirror(), "a static pod mounts no Secret")
	assert.Equal(t, []Key{SecretKey("web-tls")}, f.Keys())
}

// Whether to wait for a new certificate: not if the program only reads its files at its start and
// may be restarted.
func TestRestartOnlyPrograms(t *testing.T) {
	for _, c := range []struct {
		onRotate string
		restarts []string
		want     bool
	}{
		{"restart", []string{"web"}, true},
		{"restart", nil, false},
		{"reload", []string{"web"}, false},
		{"", []string{"web"}, false},
	} {
		pod := rotatortest.Pod(rotatortest.SecretVolume("web-tls"), rotatortest.Annotation(api.AnnotationOnRotate, c.onRotate),
			rotatortest.Annotation(api.AnnotationStatus, api.InjectionStatus{Restarts: c.restarts}.Format()))
		assert.Equal(t, c.want, FactsOf(pod).Template.Value().Restarts, c)
	}
}
