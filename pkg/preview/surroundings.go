package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// surroundings are the namespaces, Services and Secrets in the documents and the cluster.
type surroundings struct {
	opts        Options
	byNamespace map[string]choose.Known
	failed      error           // of elsewhere
	namespaces  map[string]bool // the known namespaces: opted in or not
	live        map[string]bool // the namespaces that were read from the cluster
	programs    *programs.Table // from a ConfigMap in the documents, or nil
}

// gather collects the surroundings from the documents. It returns the objects of each, and
// the outcomes of those that cannot be read.
func (s *surroundings) gather(docs []Document) (objects [][]object, problems [][]Outcome, err error) {
	objects, problems = make([][]object, len(docs)), make([][]Outcome, len(docs))
	total := 0
	for i, d := range docs {
		if d.object == nil {
			continue
		}
		found, bad := objectsOf(d.object, s.opts.Namespace)
		if total += len(found) + len(bad); total > MaxObjects {
			return nil, nil, fmt.Errorf("%s: more than %d objects, those in Lists included", d.name, MaxObjects)
		}
		for _, o := range found {
			if err := s.add(o); err != nil {
				bad = append(bad, o.outcome(s.opts.Namespace, err))
			}
		}
		objects[i], problems[i] = found, bad
	}
	return objects, problems, nil
}

// add records a Namespace, a Service, a Secret or the table of programs.
func (s *surroundings) add(o object) error {
	if o.apiVersion != "v1" {
		return nil
	}
	switch o.kind {
	case "Namespace":
		ns := &corev1.Namespace{}
		if err := Convert(o.content, ns); err != nil {
			return fieldError(err, "")
		}
		s.namespaces[ns.Name] = ns.Labels[api.LabelInject] == api.InjectEnabled
		known := s.byNamespace[ns.Name]
		known.Namespace = map[string]string{} // not nil: the Namespace is known
		maps.Copy(known.Namespace, ns.Annotations)
		s.byNamespace[ns.Name] = known
	case "Service":
		svc := &corev1.Service{}
		if err := Convert(o.content, svc); err != nil {
			return fieldError(err, "")
		}
		if svc.Namespace == "" {
			svc.Namespace = s.opts.Namespace
		}
		known := s.byNamespace[svc.Namespace]
		known.Services = append(known.Services, s.opts.translated(svc))
		s.byNamespace[svc.Namespace] = known
	case "Secret":
		s.addSecret(o.content)
	case "ConfigMap":
		return s.addPrograms(o.content)
	}
	return nil
}

// addPrograms records the table of programs, if the ConfigMap contains it.
func (s *surroundings) addPrograms(object map[string]any) error {
	if dig(object, "metadata", "name") != api.ProgramsName {
		return nil
	}
	cm := &corev1.ConfigMap{}
	if err := Convert(object, cm); err != nil {
		return fieldError(err, "")
	}
	if cm.Namespace == "" {
		cm.Namespace = s.opts.Namespace
	}
	if cm.Namespace != api.DefaultNamespace {
		return nil
	}
	table, err := programs.OfConfigMap(cm)
	if err != nil {
		return err
	}
	s.programs = &table
	return nil
}

func (s *surroundings) addSecret(object map[string]any) {
	name, _ := dig(object, "metadata", "name").(string)
	secretType, _ := object["type"].(string)
	labels := map[string]string{}
	if all, ok := dig(object, "metadata", "labels").(map[string]any); ok {
		for key, value := range all {
			labels[key] = fmt.Sprint(value)
		}
	}
	if !api.IsConventional(name, corev1.SecretType(secretType), labels) {
		return
	}
	namespace, _ := dig(object, "metadata", "namespace").(string)
	if namespace == "" {
		namespace = s.opts.Namespace
	}
	known := s.byNamespace[namespace]
	known.ConventionalSecret = true
	s.byNamespace[namespace] = known
}

// known returns the webhook's view of a namespace, or why the webhook does not review its
// pods.
func (s *surroundings) known(ctx context.Context, namespace string) (known choose.Known, optedOut string, err error) {
	static := s.opts.HostFiles != "" // the webhook does not review static pods
	if Excluded(namespace) && !static {
		return choose.Known{}, "namespace " + namespace + " is excluded from injection", nil
	}
	optedIn, written := s.namespaces[namespace]
	if s.opts.Live != nil && !s.live[namespace] {
		s.live[namespace] = true
		live, liveOptedIn, err := s.opts.Live(ctx, namespace)
		if err != nil {
			return choose.Known{}, "", err
		}
		for i, svc := range live.Services {
			live.Services[i] = s.opts.translated(svc)
		}
		s.byNamespace[namespace] = merge(s.byNamespace[namespace], live)
		if !written {
			s.namespaces[namespace], optedIn, written = liveOptedIn, liveOptedIn, true
		}
	}
	if written && !optedIn && !static {
		return choose.Known{}, "namespace " + namespace + " has no label " + api.LabelInject + "=" + api.InjectEnabled, nil
	}
	known = s.byNamespace[namespace]
	known.In, known.Config = namespace, s.opts.Config
	known.Elsewhere = func(namespace, name string) *corev1.Service { return s.elsewhere(ctx, namespace, name) }
	known.Programs = cmp.Or(s.programs, s.opts.Programs)
	return known, "", nil
}

// elsewhere returns a Service of an opted-in namespace that requests a certificate, or nil. An error
// is kept for decide.
func (s *surroundings) elsewhere(ctx context.Context, namespace, name string) *corev1.Service {
	known, optedOut, err := s.known(ctx, namespace)
	if err != nil {
		s.failed = err
		return nil
	}
	i := slices.IndexFunc(known.Services, func(svc *corev1.Service) bool { return svc.Name == name && api.Asks(svc) })
	if optedOut != "" || i < 0 {
		return nil
	}
	svc := known.Services[i].DeepCopy()
	svc.Namespace = namespace
	return svc
}

// newest is the creation time of a Service that does not exist yet: later than that of any
// existing one.
var newest = metav1.NewTime(time.Unix(1<<40, 0))

// merge adds the documents' Services to those of the cluster. A Service of the same name
// replaces the other and has its creation time.
func merge(written, live choose.Known) choose.Known {
	out := choose.Known{
		ConventionalSecret: written.ConventionalSecret || live.ConventionalSecret,
		Namespace:          written.Namespace, NoPodKeys: live.NoPodKeys,
	}
	if out.Namespace == nil {
		out.Namespace = live.Namespace
	}
	for _, svc := range written.Services {
		svc = svc.DeepCopy()
		i := slices.IndexFunc(live.Services, func(l *corev1.Service) bool { return l.Name == svc.Name })
		switch {
		case i >= 0:
			svc.CreationTimestamp = live.Services[i].CreationTimestamp
		case svc.CreationTimestamp.IsZero():
			svc.CreationTimestamp = newest
		}
		out.Services = append(out.Services, svc)
	}
	for _, l := range live.Services {
		if !slices.ContainsFunc(written.Services, func(w *corev1.Service) bool { return w.Name == l.Name }) {
			out.Services = append(out.Services, l)
		}
	}
	return out
}
