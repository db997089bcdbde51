package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// input is what one decision is based on.
type input struct {
	pod     *corev1.Pod
	request api.PodRequest
	choice  Choice
	volume  string // the name of the volume that was found or is created; empty before
}

// file returns the path of a file of the volume in a container.
func (in *input) file(name string) string {
	if in.request.MountPath == "/" {
		return "/" + name
	}
	return in.request.MountPath + "/" + name
}

// environment returns the variables that are injected into a container, in order.
func (in *input) environment() []corev1.EnvVar {
	ca := corev1.EnvVar{Name: api.EnvCAFile, Value: in.file(api.BundleKey)}
	if in.choice.By == ByNothing {
		return []corev1.EnvVar{ca}
	}
	return []corev1.EnvVar{
		{Name: api.EnvCertFile, Value: in.file(corev1.TLSCertKey)},
		{Name: api.EnvKeyFile, Value: in.file(corev1.TLSPrivateKeyKey)},
		ca,
	}
}

// indexEnv returns the index of the container's variable, or -1.
func indexEnv(c *corev1.Container, name string) int {
	return slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
}
