package plan

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/preview"
)

// OfManifests returns the plan of the Services in the documents. namespace is the namespace of
// objects without one; "default" if empty. Plan.Unread lists what cannot be read.
func OfManifests(docs []preview.Document, namespace string, opts Options) Plan {
	if namespace == "" {
		namespace = corev1.NamespaceDefault
	}
	m := manifests{contents: map[key]map[string]any{}}
	for _, d := range docs {
		for _, o := range d.Objects(namespace) {
			m.object(d, o)
		}
	}
	if opts.Programs == nil {
		opts.Programs = m.programs
	}
	b := New(m.services, m.namespaces, opts)
	b.unread = m.unread
	maps.Copy(b.contents, m.contents)
	for _, d := range docs {
		contents := map[string]map[string]any{}
		for _, o := range d.Objects(namespace) {
			contents[fmt.Sprint(o.At)] = o.Content
		}
		for _, w := range d.Workloads(namespace) {
			if w.Problem != nil {
				b.Unread(fmt.Sprintf("%s: %s %s/%s: %v", w.Document, w.Kind, w.Namespace, w.Name, w.Problem))
				continue
			}
			b.AddWorkload(Workload{w.Kind, w.Namespace, w.Name, w.Pod, contents[fmt.Sprint(w.At)], w.Template})
		}
	}
	for _, cm := range m.configMaps {
		b.AddConfigMap(cm)
	}
	for _, o := range m.others {
		b.AddObject(o)
	}
	return b.Plan()
}

// manifests are the objects of documents other than workloads.
type manifests struct {
	services   []*corev1.Service
	contents   map[key]map[string]any // of the services
	namespaces []*corev1.Namespace
	configMaps []*corev1.ConfigMap
	programs   *programs.Table
	others     []Object
	unread     []string
}

func (m *manifests) object(d preview.Document, o preview.Object) {
	read := func(into any) bool {
		err := preview.Convert(o.Content, into)
		if err != nil {
			m.unread = append(m.unread, fmt.Sprintf("%s: %s %s/%s: %v", d.Name(), o.Kind, o.Namespace, o.Name, err))
		}
		return err == nil
	}
	switch o.APIVersion + " " + o.Kind {
	case "v1 Service":
		if svc := (&corev1.Service{}); read(svc) {
			svc.Namespace, svc.Name = o.Namespace, o.Name
			m.services = append(m.services, svc)
			if k := (key{o.Namespace, o.Name}); m.contents[k] == nil { // of duplicates the first, as in an index
				m.contents[k] = o.Content
			}
		}
	case "v1 Namespace":
		if ns := (&corev1.Namespace{}); read(ns) {
			m.namespaces = append(m.namespaces, ns)
		}
	case "v1 ConfigMap":
		if cm := (&corev1.ConfigMap{}); read(cm) {
			cm.Namespace, cm.Name = o.Namespace, o.Name
			m.configMap(d, cm)
		}
	default:
		m.others = append(m.others, Object{o.APIVersion, o.Kind, o.Namespace, o.Name, o.Content})
	}
}

// configMap records a ConfigMap, which may be the table of programs.
func (m *manifests) configMap(d preview.Document, cm *corev1.ConfigMap) {
	if cm.Name != api.ProgramsName || cm.Namespace != api.DefaultNamespace {
		m.configMaps = append(m.configMaps, cm)
		return
	}
	table, err := programs.OfConfigMap(cm)
	if err != nil {
		m.unread = append(m.unread, fmt.Sprintf("%s: ConfigMap %s/%s: %v", d.Name(), cm.Namespace, cm.Name, err))
		return
	}
	m.programs = &table
}
