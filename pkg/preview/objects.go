package preview

import "encoding/json"

// Object is one object of a document: the document itself, or an item of a List.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// Content is the decoded object. Numbers are json.Number.
	Content map[string]any
	// At is the path of the object in its document: names of members (string) and indices
	// of elements (int).
	At []any
}

// Objects returns the objects of a document. namespace is the default namespace.
func (d Document) Objects(namespace string) []Object {
	if d.object == nil {
		return nil
	}
	found, _ := objectsOf(d.object, namespace)
	out := make([]Object, len(found))
	for i, o := range found {
		who := o.outcome(namespace, nil)
		out[i] = Object{o.apiVersion, o.kind, who.Namespace, who.Name, o.content, o.at}
	}
	return out
}

// Convert reads a decoded object into a type of Kubernetes. The error is that of encoding/json.
func Convert(content map[string]any, into any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// Workloads returns the workloads of a document, with their pods or the errors of reading them. It
// does not compute changes, and omits containers outside of pod templates.
func (d Document) Workloads(namespace string) []Outcome {
	if d.object == nil {
		return nil
	}
	var out []Outcome
	found, _ := objectsOf(d.object, namespace)
	for _, o := range found {
		workloads, _ := workloadsOf(o, namespace)
		for _, w := range workloads {
			w.Document = d.name
			out = append(out, w.Outcome)
		}
	}
	return out
}
