package mutate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/commandline"
	"github.com/servingcert/servingcert/pkg/mutate/plaintext"
)

// Limits of an injected pod, for all its containers together. Some decisions compare each
// element of one list with each of another. A pod beyond a limit is refused: a pod that
// silently serves plaintext is worse.
const (
	maxContainers = 100 // including init containers
	maxVolumes    = 500
	maxMounts     = 2000
	maxPorts      = 1000
	maxVariables  = 5000
	maxWords      = 5000 // of command and args
	// maxText is the largest size in bytes of the texts in which plaintext.Calls looks. By default
	// etcd stores no larger pod (--max-request-bytes).
	maxText = 3 << 19
	// maxName is the largest length of the name of a container, which notes repeat. The API server
	// accepts no longer one.
	maxName = validation.DNS1123LabelMaxLength
	// maxExpanded is the largest size in bytes of command and args with variables expanded.
	// Linux starts no program with arguments of more than 2 MiB.
	maxExpanded = 1 << 20
)

// checkSize returns an *api.FieldError if the pod exceeds a limit. A pod that was injected before may
// have twice as much, since what was added counts too: else a pod at a limit would be refused when the
// webhook is called again. Nothing marks a static pod that was injected.
func checkSize(in *input) error {
	spec, times := &in.pod.Spec, 1
	if in.pod.Labels[api.LabelInjected] == "true" || in.choice.Host != "" {
		times = 2
	}
	if err := tooMany("spec.containers", "containers", len(spec.Containers)+len(spec.InitContainers), times*maxContainers); err != nil {
		return err
	}
	if err := tooMany("spec.volumes", "volumes", len(spec.Volumes), times*maxVolumes); err != nil {
		return err
	}
	var mounts, ports, variables, words, text int
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			if len(c.Name) > maxName {
				return tooLarge("spec.containers[*].name", c.Name, fmt.Sprintf("must have at most %d bytes", maxName))
			}
			mounts += len(c.VolumeMounts) + len(c.VolumeDevices)
			ports += len(c.Ports)
			variables += len(c.Env)
			words += len(c.Command) + len(c.Args)
			for t := range plaintext.Texts(c) {
				text += len(t)
			}
		}
	}
	for _, total := range []struct {
		field, what string
		n, most     int
	}{
		{"spec.containers[*].volumeMounts", "mounts", mounts, maxMounts},
		{"spec.containers[*].ports", "ports", ports, maxPorts},
		{"spec.containers[*].env", "variables", variables, maxVariables},
		{"spec.containers[*].args", "words of command and args", words, maxWords},
		{"spec.containers[*]", "bytes of commands, args and variables", text, maxText},
	} {
		if err := tooMany(total.field, total.what, total.n, times*total.most); err != nil {
			return err
		}
	}
	if most := times * maxExpanded; in.expandedSize(most) > most {
		return tooLarge("spec.containers[*].args", "command and args with variables", fmt.Sprintf("must have at most %d bytes once the variables are replaced", most))
	}
	return nil
}

func tooMany(field, what string, n, most int) error {
	if n <= most {
		return nil
	}
	return tooLarge(field, fmt.Sprintf("%d %s", n, what), fmt.Sprintf("must be at most %d", most))
}

func tooLarge(field, value, detail string) error {
	return &api.FieldError{Field: field, Value: value, Detail: detail + ` in a pod that gets a certificate or the CA bundle; label ` + api.LabelInject + `="` + api.InjectDisabled + `" opts the pod out`}
}

// expandedSize returns the size in bytes of command and args of all containers with
// variables expanded. It stops counting beyond most.
func (in *input) expandedSize(most int) int {
	size := 0
	for _, list := range [][]corev1.Container{in.pod.Spec.InitContainers, in.pod.Spec.Containers} {
		for i := range list {
			values := func() map[string]string { return in.variables(&list[i]) }
			size += commandline.ExpandedSize(list[i].Command, values, most-size)
			size += commandline.ExpandedSize(list[i].Args, values, most-size)
			if size > most {
				return size
			}
		}
	}
	return size
}
