package main

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// excerpt is the part of a pod that the webhook may add to and that people care
// for.
type excerpt struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations,omitempty"`
		Labels      map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Containers []container     `json:"containers"`
		Volumes    []corev1.Volume `json:"volumes,omitempty"`
	} `json:"spec"`
}

type container struct {
	Name         string               `json:"name"`
	Command      []string             `json:"command,omitempty"`
	Args         []string             `json:"args,omitempty"`
	Env          []corev1.EnvVar      `json:"env,omitempty"`
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
}

// podDiff returns the pod in YAML, each line marked with "+" if its template does
// not have it, and with "-" if only the template has it.
func podDiff(template corev1.PodTemplateSpec, pod *corev1.Pod) ([]string, error) {
	before, err := excerptOf(template.Labels, template.Annotations, template.Spec)
	if err != nil {
		return nil, err
	}
	after, err := excerptOf(pod.Labels, pod.Annotations, pod.Spec)
	if err != nil {
		return nil, err
	}
	return diff(before, after), nil
}

func excerptOf(labels, annotations map[string]string, spec corev1.PodSpec) ([]string, error) {
	var e excerpt
	e.Metadata.Annotations = annotations
	e.Metadata.Labels = maps.Clone(labels)
	delete(e.Metadata.Labels, "pod-template-hash") // the ReplicaSet's
	for _, c := range spec.Containers {
		e.Spec.Containers = append(e.Spec.Containers, container{c.Name, c.Command, c.Args, c.Env, c.VolumeMounts})
	}
	e.Spec.Volumes = spec.Volumes
	text, err := yaml.Marshal(e)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}

// diff compares by the longest common subsequence of lines.
func diff(before, after []string) []string {
	// length[i][j] is that of before[i:] and after[j:].
	length := make([][]int, len(before)+1)
	for i := range length {
		length[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, "  "+after[j])
			i, j = i+1, j+1
		case j < len(after) && (i == len(before) || length[i][j+1] >= length[i+1][j]):
			lines = append(lines, "+ "+after[j])
			j++
		default:
			lines = append(lines, "- "+before[i])
			i++
		}
	}
	return lines
}
