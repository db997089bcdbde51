package deploy

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The optional policy says which directories of a node hostsync mounts.
func TestWhichDirectoriesHostsyncMounts(t *testing.T) {
	admin := adminClient(t)
	applyOptional(t, "hostsync.yaml")
	limited := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hosts-", Labels: map[string]string{"servingcert.dev/host-paths": "hostsync"}}}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hosts-"}}
	require.NoError(t, admin.Create(t.Context(), limited))
	require.NoError(t, admin.Create(t.Context(), other))

	const refused = "may mount only /etc/servingcert"
	no, yes := false, true
	mounting := func(name string, paths ...string) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Namespace: other.Name, Labels: map[string]string{"app.kubernetes.io/name": name}},
			Spec:       corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		for i, path := range paths {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
				Name: string(rune('a' + i)), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
			})
		}
		return pod
	}
	in := func(namespace *corev1.Namespace, pod *corev1.Pod) *corev1.Pod {
		pod.Namespace = namespace.Name
		return pod
	}
	privileged := mounting("hostsync")
	privileged.Spec.InitContainers = []corev1.Container{{Name: "p", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}
	token := mounting("hostsync")
	token.Spec.AutomountServiceAccountToken = nil
	root := in(limited, mounting("web", "/etc/kubernetes/manifests")) // docs/hosts.md: the policy is no boundary
	root.Spec.HostPID = true
	root.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"none":                      {mounting("hostsync"), ""},
		"a store":                   {mounting("hostsync", "/etc/servingcert"), ""},
		"below it":                  {mounting("hostsync", "/etc/servingcert/web", "/etc/kubernetes/manifests", "/run/dbus/system_bus_socket"), ""},
		"the root":                  {mounting("hostsync", "/"), refused},
		"a directory above":         {mounting("hostsync", "/etc"), refused},
		"a name that begins alike":  {mounting("hostsync", "/etc/servingcert-x"), refused},
		"one of two":                {mounting("hostsync", "/etc/servingcert", "/root"), "hostPath /root: hostsync may"},
		"out of it and back":        {mounting("hostsync", "/etc/servingcert/../../root"), "must not contain '..'"},
		"privileged":                {privileged, "no privileged container"},
		"a token":                   {token, "automountServiceAccountToken must be false"},
		"who is not hostsync":       {mounting("web", "/root"), ""},
		"in a namespace of its own": {in(limited, mounting("web", "/root")), refused},
		"in it, root all the same":  {root, ""},
		"in it, a store":            {in(limited, mounting("web", "/etc/servingcert")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			becomes(t, c.want, func() error { return admin.Create(t.Context(), c.pod.DeepCopy()) })
		})
	}
}
