package preview

// Object is one object of a document: the document itself, or an item of a List.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// Content is the object as it is written. Numbers are json.Number.
	Content map[string]any
	// At is where the object is in its document: names of members (string) and indices
	// of elements (int).
	At []any
}

// Objects returns the objects of a document. namespace is that of objects without one.
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

// Workloads returns the workloads of a document, with their pods or why these cannot be read.
// Nothing is decided about them, and containers outside of pod templates are left out.
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
