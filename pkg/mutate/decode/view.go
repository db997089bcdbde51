// Package decode decodes of a pod what the decision about it reads, and refuses one whose lists
// are too long to be decoded. It is pure; package admission decodes reviews with it.
//
//	var lists decode.Lists // if anyone may have sent the pod
//	err := json.Unmarshal(data, &lists)
//	var view decode.View
//	err = json.Unmarshal(data, &view)
//	pod := view.Pod()
package decode

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// View is the part of a pod that the rules read. Decoding skips the rest: resource
// quantities, most affinities and managed fields would be half of the work. A field that a
// rule starts to read must be added here; a test compares the decisions about a view
// with those about the whole pod. A pod that anyone may have sent must be decoded into
// [Lists] first if its lists may be long.
type View struct {
	Metadata struct {
		Name            string            `json:"name"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		OwnerReferences []ownerView       `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Volumes         []corev1.Volume   `json:"volumes"`
		InitContainers  []containerView   `json:"initContainers"`
		Containers      []containerView   `json:"containers"`
		OS              *corev1.PodOS     `json:"os"`
		NodeSelector    map[string]string `json:"nodeSelector"`
		SecurityContext *securityView     `json:"securityContext"`
		HostNetwork     bool              `json:"hostNetwork"`
		Resources       *struct{}         `json:"resources"`
		Affinity        *affinityView     `json:"affinity"`

		ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets"`
	} `json:"spec"`
}

// Pod returns a pod with the fields of the view.
func (v *View) Pod() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v.Metadata.Name, Labels: v.Metadata.Labels, Annotations: v.Metadata.Annotations},
		Spec: corev1.PodSpec{
			Volumes: v.Spec.Volumes, OS: v.Spec.OS, NodeSelector: v.Spec.NodeSelector, HostNetwork: v.Spec.HostNetwork,
			InitContainers: containers(v.Spec.InitContainers), Containers: containers(v.Spec.Containers),
			ImagePullSecrets: v.Spec.ImagePullSecrets,
		},
	}
	if v.Spec.Affinity != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: v.Spec.Affinity.NodeAffinity.Required}}
	}
	if v.Spec.Resources != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{}
	}
	for _, o := range v.Metadata.OwnerReferences {
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: o.Kind})
	}
	if s := v.Spec.SecurityContext; s != nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: s.FSGroup, RunAsUser: s.RunAsUser}
	}
	return pod
}

// affinityView is which nodes a pod requires.
type affinityView struct {
	NodeAffinity struct {
		Required *corev1.NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

type ownerView struct {
	Kind string `json:"kind"`
}

// securityView is the security context of a pod, or of a container, which has no fsGroup.
type securityView struct {
	FSGroup   *int64 `json:"fsGroup"`
	RunAsUser *int64 `json:"runAsUser"`
}

type containerView struct {
	Name            string                         `json:"name"`
	Image           string                         `json:"image"`
	Command         []string                       `json:"command"`
	Args            []string                       `json:"args"`
	Env             []envView                      `json:"env"`
	EnvFrom         []struct{}                     `json:"envFrom"`
	Ports           []corev1.ContainerPort         `json:"ports"`
	VolumeMounts    []corev1.VolumeMount           `json:"volumeMounts"`
	VolumeDevices   []corev1.VolumeDevice          `json:"volumeDevices"`
	StartupProbe    *corev1.ProbeHandler           `json:"startupProbe"`
	ReadinessProbe  *corev1.ProbeHandler           `json:"readinessProbe"`
	LivenessProbe   *corev1.ProbeHandler           `json:"livenessProbe"`
	Lifecycle       *corev1.Lifecycle              `json:"lifecycle"`
	RestartPolicy   *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	SecurityContext *securityView                  `json:"securityContext"`
	Resources       resourcesView                  `json:"resources"`

	TerminationMessagePolicy corev1.TerminationMessagePolicy `json:"terminationMessagePolicy"`
}

// envView does not keep the source of a value, only whether there is one.
type envView struct {
	Name      string    `json:"name"`
	Value     string    `json:"value"`
	ValueFrom *struct{} `json:"valueFrom"`
}

// resourcesView are the resources of a container that decide about its class of service.
// Decoding a quantity is expensive, and most pods need none.
type resourcesView struct{ Requests, Limits quantitiesView }

type quantitiesView struct {
	CPU    *quantityView `json:"cpu"`
	Memory *quantityView `json:"memory"`
}

// quantityView is a quantity in the spelling of the API server, which is the same for equal
// ones.
type quantityView string

// UnmarshalJSON implements json.Unmarshaler.
func (q *quantityView) UnmarshalJSON(data []byte) error {
	*q = quantityView(bytes.Trim(data, `"`))
	return nil
}

// list returns the quantities. The API server has checked them: one that is none counts as 0.
func (v quantitiesView) list() (out corev1.ResourceList) {
	for name, q := range map[corev1.ResourceName]*quantityView{corev1.ResourceCPU: v.CPU, corev1.ResourceMemory: v.Memory} {
		if q == nil {
			continue
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[name], _ = resource.ParseQuantity(string(*q))
	}
	return out
}

func containers(views []containerView) []corev1.Container {
	if len(views) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(views))
	for i := range views {
		v, c := &views[i], &out[i]
		c.Name, c.Image, c.Command, c.Args, c.Ports = v.Name, v.Image, v.Command, v.Args, v.Ports
		c.TerminationMessagePolicy = v.TerminationMessagePolicy
		c.VolumeMounts, c.VolumeDevices = v.VolumeMounts, v.VolumeDevices
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probe(v.StartupProbe), probe(v.ReadinessProbe), probe(v.LivenessProbe)
		c.Lifecycle, c.RestartPolicy = v.Lifecycle, v.RestartPolicy
		c.EnvFrom = make([]corev1.EnvFromSource, len(v.EnvFrom))
		c.Env = make([]corev1.EnvVar, len(v.Env))
		for j, e := range v.Env {
			c.Env[j] = corev1.EnvVar{Name: e.Name, Value: e.Value}
			if e.ValueFrom != nil {
				c.Env[j].ValueFrom = &corev1.EnvVarSource{}
			}
		}
		c.Resources = corev1.ResourceRequirements{Requests: v.Resources.Requests.list(), Limits: v.Resources.Limits.list()}
		if v.SecurityContext != nil {
			c.SecurityContext = &corev1.SecurityContext{RunAsUser: v.SecurityContext.RunAsUser}
		}
	}
	return out
}

func probe(handler *corev1.ProbeHandler) *corev1.Probe {
	if handler == nil {
		return nil
	}
	return &corev1.Probe{ProbeHandler: *handler}
}
