package mutate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// defaultContainer is the annotation by which kubectl, too, learns which of a
// pod's containers matters.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// ref is a container and its place in the pod's spec.
type ref struct {
	*corev1.Container
	list  string // "containers" or "initContainers"
	index int
}

func (r ref) path(elem ...any) []any { return append([]any{"spec", r.list, r.index}, elem...) }

// serving returns the containers that run as long as the pod does: native
// sidecars (init containers that always restart) and then the containers.
func serving(pod *corev1.Pod) []ref {
	refs := make([]ref, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			refs = append(refs, ref{c, "initContainers", i})
		}
	}
	for i := range pod.Spec.Containers {
		refs = append(refs, ref{&pod.Spec.Containers[i], "containers", i})
	}
	return refs
}

// named returns the container of that name; init containers count.
func named(pod *corev1.Pod, name string) (ref, bool) {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return ref{c, "initContainers", i}, true
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return ref{c, "containers", i}, true
		}
	}
	return ref{}, false
}

// selection is which containers get the files, and whether they get flags too.
type selection struct {
	targets []ref
	flags   bool
	notes   []Note
}

// selectors choose the containers. The first that finds any decides.
var selectors = []func(in *input) selection{
	byAnnotation, byTrust, byTargetPort, byBeingAlone, byDefaultContainer, byEarlierPass, byNothing,
}

func selectContainers(in *input) selection {
	for _, choose := range selectors {
		if s := choose(in); len(s.targets)+len(s.notes) > 0 {
			return s
		}
	}
	return selection{}
}

func byAnnotation(in *input) selection {
	s := selection{flags: true}
	var unknown []string
	for _, name := range in.request.Containers {
		if c, ok := named(in.pod, name); ok {
			s.targets = append(s.targets, c)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		s.notes = []Note{{Reason: ReasonUnknownContainer, Containers: unknown}}
	}
	return s
}

// byTrust gives a client's files to every container: they are public.
func byTrust(in *input) selection {
	if in.choice.By != ByNothing {
		return selection{}
	}
	return selection{targets: serving(in.pod)}
}

func byTargetPort(in *input) selection {
	return oneOrNone(slices.DeleteFunc(serving(in.pod), func(c ref) bool {
		for _, t := range in.choice.Ports {
			if declares(c.Container, t) {
				return false
			}
		}
		return true
	}))
}

func byBeingAlone(in *input) selection { return oneOrNone(serving(in.pod)) }

func byDefaultContainer(in *input) selection {
	name := in.pod.Annotations[defaultContainer]
	return oneOrNone(slices.DeleteFunc(serving(in.pod), func(c ref) bool { return name == "" || c.Name != name }))
}

func oneOrNone(found []ref) selection {
	if len(found) != 1 {
		return selection{}
	}
	return selection{targets: found, flags: true}
}

// byEarlierPass finds the containers that an earlier pass chose, when others
// have added theirs since and the choice is no longer clear: those that have the
// files while some, which could, have not.
func byEarlierPass(in *input) selection {
	var s selection
	added := false
	for _, c := range serving(in.pod) {
		if in.volume != "" && mounted(c.Container, in.volume, in.request.MountPath) {
			s.targets = append(s.targets, c)
		} else if _, keep := firstOf(fileChecks, in, c); !keep {
			added = true
		}
	}
	if len(s.targets) == 0 || !added {
		return selection{}
	}
	hasFlags := slices.ContainsFunc(s.targets, func(c ref) bool { return flagsIn(in, c.Container) == flagsOurs })
	if in.request.Mode == api.ModeArgs && !hasFlags {
		s.notes = []Note{ambiguous(in)}
	}
	return s
}

func byNothing(in *input) selection {
	s := selection{targets: serving(in.pod)}
	if in.request.Mode == api.ModeArgs {
		s.notes = []Note{ambiguous(in)}
	}
	return s
}

func ambiguous(in *input) Note {
	return Note{Reason: ReasonAmbiguousContainer, Containers: names(serving(in.pod))}
}

func names(refs []ref) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.Name
	}
	return out
}

// list writes names for a person, few enough to be read.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
