package pods

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ordinary is how many bytes the facts of a pod may have that count as next to nothing. Those of
// pods of one workload are there once, so that to count them for each pod would keep large
// workloads out.
const ordinary = 2 << 10

// Size returns about how many bytes a cache needs for the facts, with its indices, or 0 if they
// are those of an ordinary pod.
func (f *Facts) Size() int64 {
	const object, element = 512, 128
	t := f.Template.Value()
	n := object + len(t.Labels) + len(t.SecretName) + len(t.Ports) + len(t.startTLS) + len(t.Mistake) + len(t.Noted) + len(t.Explained.String()) +
		len(t.Workload.Kind) + len(t.Workload.APIVersion) + len(t.Workload.Name) +
		len(t.Given.Service) + len(t.Given.Secret) + len(t.Given.Attempts) + len(f.Leaf())
	for _, key := range t.mounted() {
		n += element + len(f.Namespace) + 2*len(key) // as text, and in the index
	}
	if f.Crashes != nil {
		for _, c := range f.Crashes.Containers {
			n += element + len(c.Container) + len(c.Reason) + len(c.Message)
			for _, given := range c.Given {
				n += element + len(given)
			}
		}
	}
	if f.Unready != nil {
		n += element + len(f.Unready.Container) + 2*len(f.Unready.Ports)
	}
	if n <= ordinary {
		return 0
	}
	return int64(n)
}

// Reduce returns what is kept of facts for which there is no room: which pod it is. Nothing is
// done for it, as for one that mounts nothing and that no Service selects.
func (f *Facts) Reduce() *Facts {
	return &Facts{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name, ResourceVersion: f.ResourceVersion, DeletionTimestamp: f.DeletionTimestamp},
		Template:   unique.Make(Template{Namespace: f.Namespace, Left: ReasonTooLarge}),
	}
}

// Reduced reports whether the facts are those that Reduce returns.
func (f *Facts) Reduced() bool { return f.Template.Value().Left == ReasonTooLarge }
