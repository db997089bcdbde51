package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// defaultContainer is the annotation that names the pod's default container, for kubectl
// and others.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// containerNamed returns the container or init container with the name.
func containerNamed(pod *corev1.Pod, name string) (api.ContainerRef, bool) {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return api.ContainerRef{Container: c, Init: true, Index: i}, true
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return api.ContainerRef{Container: c, Index: i}, true
		}
	}
	return api.ContainerRef{}, false
}

// selection is the containers that get the files, and whether they also get the flags.
type selection struct {
	targets []api.ContainerRef
	flags   bool
	notes   []reasons.Note
}

// selectors select the containers. The first that returns containers or notes decides: if
// a container declares a target port, those that declare none are not considered.
var selectors = []func(in *input) selection{
	byAnnotation, byTrust, byTargetPort, onlyContainer, byDefaultContainer, byEarlierPass, allContainers,
}

func selectContainers(in *input) selection {
	for _, selector := range selectors {
		if s := selector(in); len(s.targets)+len(s.notes) > 0 {
			return s
		}
	}
	return selection{}
}

func byAnnotation(in *input) selection {
	s := selection{flags: true}
	var unknown []string
	for _, name := range in.settings.Containers {
		if c, ok := containerNamed(in.pod, name); ok {
			s.targets = append(s.targets, c)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		s.notes = []reasons.Note{{Reason: reasons.UnknownContainer, Containers: unknown}}
	}
	return s
}

// byTrust selects all containers of a client, because its files are public.
func byTrust(in *input) selection {
	if in.choice.By != choose.ByNothing {
		return selection{}
	}
	return selection{targets: in.running}
}

// byTargetPort selects all containers that declare a target port of the Services. Each of
// them serves, regardless of the pod's default container.
func byTargetPort(in *input) selection {
	ports := api.PortSetOf(in.choice.Ports)
	return selection{flags: true, targets: slices.DeleteFunc(slices.Clone(in.running), func(c api.ContainerRef) bool {
		return !c.DeclaresAny(ports)
	})}
}

func onlyContainer(in *input) selection { return oneOrNone(in.running) }

func byDefaultContainer(in *input) selection {
	name := in.pod.Annotations[defaultContainer]
	return oneOrNone(slices.DeleteFunc(slices.Clone(in.running), func(c api.ContainerRef) bool { return name == "" || c.Name != name }))
}

func oneOrNone(found []api.ContainerRef) selection {
	if len(found) != 1 {
		return selection{}
	}
	return selection{targets: found, flags: true}
}

// byEarlierPass selects the containers that an earlier pass selected, if other webhooks
// have added containers since and the selection is no longer clear: those with the files,
// if there are others that could have them.
func byEarlierPass(in *input) selection {
	var s selection
	added := false
	for _, c := range in.running {
		if slices.ContainsFunc(in.volumes, func(v string) bool { return volume.Mounted(c.Container, v, in.settings.MountPath) }) {
			s.targets = append(s.targets, c)
		} else if _, keep := in.obstacle(c); !keep {
			added = true
		}
	}
	if len(s.targets) == 0 || !added {
		return selection{}
	}
	hasFlags := slices.ContainsFunc(s.targets, func(c api.ContainerRef) bool { return in.offerTo(c, false).serves })
	if in.settings.Mode == api.ModeArgs && !hasFlags {
		s.notes = []reasons.Note{ambiguous(in)}
	}
	return s
}

func allContainers(in *input) selection {
	s := selection{targets: in.running}
	if in.settings.Mode == api.ModeArgs {
		s.notes = []reasons.Note{ambiguous(in)}
	}
	return s
}

func ambiguous(in *input) reasons.Note {
	return reasons.Note{Reason: reasons.AmbiguousContainer, Containers: names(in.running)}
}

func names(refs []api.ContainerRef) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.Name
	}
	return out
}

// obstacle returns a note if the files, and therefore everything else, cannot be injected
// into the container.
func (in *input) obstacle(c api.ContainerRef) (reasons.Note, bool) {
	reason, detail := volume.Obstacle(in.pod, c.Container, in.volume, in.settings.MountPath)
	return reasons.Note{Reason: reason, Containers: []string{c.Name}, Detail: detail}, reason != ""
}
