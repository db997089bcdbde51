package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Labels of servingcert's pods in deploy/install.yaml.
const (
	labelPartOf = "app.kubernetes.io/part-of"
	labelName   = "app.kubernetes.io/name"
	partOf      = "servingcert"
)

// Running counts the pods of one process with one image, in the form of -o json. Its texts
// are escaped.
type Running struct {
	Name  string `json:"name"` // webhook, signer or rotator
	Image string `json:"image"`
	// Version is the image's tag; "" if it has none, or only a digest.
	Version string `json:"version,omitempty"`
	Pods    int    `json:"pods"`
}

// KubernetesVersion returns the version of the API server.
func (c *Cluster) KubernetesVersion() (string, error) {
	v, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("read the version of the API server: %w", err)
	}
	return api.Escape(v.GitVersion), nil
}

// Running returns the processes in the namespace of servingcert, by name and image: during a
// rollout, a name has several images.
func (c *Cluster) Running(ctx context.Context, system string) ([]Running, error) {
	pods, err := c.Client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: labelPartOf + "=" + partOf})
	if err != nil {
		return nil, fmt.Errorf("list the pods of servingcert: %w", err)
	}
	var found []Running
	for i := range pods.Items {
		found = count(found, &pods.Items[i])
	}
	slices.SortFunc(found, func(a, b Running) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Image, b.Image)) })
	return found, nil
}

func count(found []Running, pod *corev1.Pod) []Running {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || len(pod.Spec.Containers) == 0 {
		return found
	}
	name, image := api.Escape(pod.Labels[labelName]), api.Escape(pod.Spec.Containers[0].Image)
	i := slices.IndexFunc(found, func(r Running) bool { return r.Name == name && r.Image == image })
	if i < 0 {
		i = len(found)
		found = append(found, Running{Name: name, Image: image, Version: tagOf(image)})
	}
	found[i].Pods++
	return found
}

// tagOf returns the tag of an image; "" if it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:] // a colon before the last slash belongs to the port
	_, tag, _ := strings.Cut(name, ":")
	return tag
}
