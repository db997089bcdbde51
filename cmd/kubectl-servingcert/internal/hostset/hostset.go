// Package hostset returns the objects that write the files of a static pod on its node: a DaemonSet of
// hostsync in the namespace of the Secret, and the ConfigMap with its configuration. It is pure.
package hostset

import (
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// Static is a static pod that gets its files from hostsync.
type Static struct {
	Pod *corev1.Pod
	// Namespace is that of the pod and the Secret.
	Namespace, Secret string
	// Service is the one that requests the Secret and selects the pod; "" if unknown.
	Service string
	// Dir is the directory on the node with a subdirectory for each store.
	Dir   string
	Image string // of hostsync
	// Programs is the table with the programs that reload their files by themselves.
	Programs programs.Table
}

// Directories and files of the DaemonSet, and the kubelet's directory of static pods.
const (
	sourceDir = "/run/servingcert"
	configDir = "/etc/hostsync"
	config    = "stores.yaml"
	manifests = "/etc/kubernetes/manifests"
)

const name = "hostsync"

// controlPlane is the label of control plane nodes.
const controlPlane = "node-role.kubernetes.io/control-plane"

// Objects returns the ConfigMap and the DaemonSet.
func (s Static) Objects() (*corev1.ConfigMap, *appsv1.DaemonSet, error) {
	stores, err := yaml.Marshal(map[string]any{"stores": []any{s.store()}})
	if err != nil {
		return nil, nil, err
	}
	meta := metav1.ObjectMeta{Name: name + "-" + s.Pod.Name, Namespace: s.Namespace, Labels: s.labels()}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{config: string(stores)},
	}, s.daemonSet(meta), nil
}

func (s Static) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": s.Pod.Name}
}

// store returns the pod's entry in the configuration.
func (s Static) store() map[string]any {
	out := map[string]any{"name": s.Pod.Name, "from": sourceDir}
	if s.Service != "" { // a certificate of another Service is refused
		out["names"] = []string{s.Service + "." + s.Namespace + ".svc"}
	}
	if owner := s.owner(); len(owner) > 0 {
		out["owner"] = owner
	}
	if s.restarts() {
		out["action"] = map[string]any{"staticPod": map[string]any{"manifest": path.Join(manifests, s.Pod.Name+".yaml")}}
	}
	return out
}

// owner returns the user and group that read the files, if the pod does not run as root.
func (s Static) owner() map[string]any {
	out := map[string]any{}
	if p := s.Pod.Spec.SecurityContext; p != nil {
		put(out, "uid", p.RunAsUser)
		put(out, "gid", p.RunAsGroup)
	}
	for _, c := range s.Pod.Spec.Containers {
		if p := c.SecurityContext; p != nil {
			put(out, "uid", p.RunAsUser)
			put(out, "gid", p.RunAsGroup)
		}
	}
	return out
}

func put(owner map[string]any, key string, id *int64) {
	if id != nil && *id != 0 {
		owner[key] = *id
	}
}

// restarts reports whether the pod must be restarted for a new certificate: unless all its programs
// are known to reload their files.
func (s Static) restarts() bool {
	for i := range s.Pod.Spec.Containers {
		program := s.Programs.Of(&s.Pod.Spec.Containers[i], func([]int32) bool { return false })
		if program == nil || program.Reload != programs.ReloadItself {
			return true
		}
	}
	return false
}

func (s Static) daemonSet(meta metav1.ObjectMeta) *appsv1.DaemonSet {
	no, yes, root := false, true, int64(0)
	capabilities := []corev1.Capability{}
	if len(s.owner()) > 0 { // files get another owner, and only the owner may read them
		capabilities = append(capabilities, "CHOWN", "DAC_OVERRIDE", "FOWNER")
	}
	mounts := []corev1.VolumeMount{
		{Name: "source", MountPath: sourceDir, ReadOnly: true},
		{Name: "config", MountPath: configDir, ReadOnly: true},
		{Name: "stores", MountPath: s.Dir},
	}
	if s.restarts() {
		mounts = append(mounts, corev1.VolumeMount{Name: "manifests", MountPath: manifests})
	}
	return &appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: s.labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: s.labels()},
				Spec: corev1.PodSpec{
					NodeSelector:                 map[string]string{controlPlane: ""},
					Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					PriorityClassName:            "system-node-critical",
					AutomountServiceAccountToken: &no,
					SecurityContext:              &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{
						Name: name, Image: s.Image,
						Args: []string{"--config=" + path.Join(configDir, config), "--dir=" + s.Dir},
						Env: []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
							FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"},
						}}},
						VolumeMounts: mounts,
						ReadinessProbe: &corev1.Probe{
							ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/hostsync", "ready"}}},
							PeriodSeconds: 30, TimeoutSeconds: 10, // a process in a container may take seconds to start on a busy node
						},
						SecurityContext: &corev1.SecurityContext{
							RunAsUser: &root, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
						},
					}},
					Volumes: s.volumes(),
				},
			},
		},
	}
}

func (s Static) volumes() []corev1.Volume {
	mode := volume.ModeGroup
	made, exists := corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory
	host := func(name, dir string, kind *corev1.HostPathType) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: kind}}}
	}
	out := []corev1.Volume{
		{Name: "source", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: volume.Contents{Pair: volume.Pair{Secret: s.Secret}, Issued: true, Trust: true}.Sources(), DefaultMode: &mode,
		}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name + "-" + s.Pod.Name},
		}}},
		host("stores", s.Dir, &made),
	}
	if s.restarts() {
		out = append(out, host("manifests", manifests, &exists))
	}
	return out
}
