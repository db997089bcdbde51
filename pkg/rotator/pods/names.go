package pods

import (
	"iter"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// standard are the variables that each container gets, whatever is tried with it.
var standard = api.Variables()

// nameReader reads the names of flags and variables of a pod's containers. Together they
// are at most maxNames.
type nameReader struct {
	pod *corev1.Pod
	key Key
	// more are names that the webhook says that it gave besides, by container: see
	// api.InjectionStatus.Names.
	more map[string]string
	left int

	// volumes are those with the key, and containers those that run as long as the pod
	// does; nil before the first look.
	volumes    map[string]bool
	containers []api.ContainerRef
}

func newNameReader(pod *corev1.Pod, key Key) *nameReader {
	return &nameReader{pod: pod, key: key, left: maxNames}
}

// given returns the names, without dashes, of the container's flags and variables whose
// value leads to where the key is mounted, and those that the webhook says that it gave
// besides. They are sorted.
func (r *nameReader) given(container string) []string {
	if r.volumes == nil {
		r.volumes, r.containers = volumesWith(r.pod, r.key), api.RunningContainers(r.pod)
	}
	i := slices.IndexFunc(r.containers, func(c api.ContainerRef) bool { return c.Name == container })
	if i < 0 {
		return nil
	}
	c := r.containers[i].Container
	dirs := r.directories(c)
	var names []string
	add := func(name string) (room bool) {
		if len(names) < r.left && IsName(name) && !slices.Contains(names, name) {
			names = append(names, strings.Clone(name))
		}
		return len(names) < r.left
	}
	for name, value := range namesAndValues(c) {
		leads := slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(value, dir) })
		if leads && !add(name) {
			break
		}
	}
	for name := range strings.SplitSeq(r.more[container], ",") {
		if !add(name) {
			break
		}
	}
	r.left -= len(names)
	slices.Sort(names)
	return names
}

// volumesWith returns the pod's volumes with the key.
func volumesWith(pod *corev1.Pod, key Key) map[string]bool {
	out := map[string]bool{}
	secret, _ := key.Secret()
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if slices.Contains(keysIn(v), secret) || key == PodKey && holdsPodKey(*v) {
			out[v.Name] = true
		}
	}
	return out
}

// directories returns where the container has the key: the first maxDirectories.
func (r *nameReader) directories(c *corev1.Container) []string {
	var dirs []string
	for _, m := range c.VolumeMounts {
		if r.volumes[m.Name] && len(dirs) < maxDirectories {
			dirs = append(dirs, path.Clean(m.MountPath))
		}
	}
	return dirs
}

// namesAndValues yields the container's flags, without dashes, and variables, each with what
// leads somewhere: "--flag=value" whole, and "value" after "--flag".
func namesAndValues(c *corev1.Container) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		before := "" // the word before
		for _, words := range [][]string{c.Command, c.Args} {
			for _, word := range words {
				name, _, _ := strings.Cut(word, "=")
				if !strings.HasPrefix(word, "-") && !strings.Contains(before, "=") {
					name = before
				}
				before = word
				if strings.HasPrefix(name, "-") && !yield(strings.TrimLeft(name, "-"), word) {
					return
				}
			}
		}
		for _, e := range c.Env {
			if !slices.Contains(standard, e.Name) && !yield(e.Name, e.Value) {
				return
			}
		}
	}
}
