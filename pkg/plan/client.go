package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Client is the plan of a workload whose programs call Services in plaintext: its proxy makes these
// calls over TLS, and the programs stay as they are.
type Client struct {
	Namespace string `json:"namespace"`
	// Workload is KIND/NAME.
	Workload string `json:"workload"`
	// Wave is when the pods are replaced: after the waves of Services, which then serve TLS. 0 if there is
	// nothing to do.
	Wave int `json:"wave"`
	// Connect is the value to set for annotation servingcert.dev/connect of the pod template; empty if it stays.
	Connect string `json:"connect,omitempty"`
	// Services are those that are added: NAMESPACE/NAME. Already are those to which the pods connect,
	// according to their annotations.
	Services []string `json:"services,omitempty"`
	Already  []string `json:"already,omitempty"`
	// RollOut is true if pods are older than the annotation.
	RollOut bool `json:"rollOut,omitempty"`
	// Left are the Services whose calls have to be changed in the programs.
	Left  []Left   `json:"left,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// OptIn is true if the steps contain opting the namespace in.
	OptIn bool `json:"optIn,omitempty"`
	// ManagedBy is the GitOps tool that reverts changes in the cluster; empty if none is known.
	ManagedBy string `json:"managedBy,omitempty"`
	Steps     []Step `json:"steps,omitempty"`

	kind, name string
	selector   string        // of its pods; empty if they have no labels
	listed     []api.Connect // the entries that apply now
	before     string        // the annotation of the template
	has        bool          // the template has it
	added      []added
	older      []key // Services that pods do not connect to, although the annotation lists them
	already    []key
	left       []left
	notes      []string
	own        int            // the wave in which its pods are replaced for their own Services; or 0
	content    map[string]any // the manifest; nil if unknown
	template   []any          // the path of the pod template in it
}

// Left is a Service that a client's proxy cannot call, and why.
type Left struct {
	Service string `json:"service"`
	Why     string `json:"why"`
}

// added is a Service that is added to the annotation.
type added struct {
	service key
	entries []api.Connect
	wave    int
	note    string
}

type left struct {
	service key
	why     string
}

// String returns NAMESPACE/NAME.
func (k key) String() string { return k.namespace + "/" + k.name }

// todo reports whether the pods have to be replaced.
func (c *Client) todo() bool { return len(c.added) > 0 || len(c.older) > 0 }

// only returns the client's plan for these Services, or false if it calls none of them.
func (c *Client) only(of func(key) bool) (Client, bool) {
	out := *c
	out.added = slices.DeleteFunc(slices.Clone(c.added), func(a added) bool { return !of(a.service) })
	out.left = slices.DeleteFunc(slices.Clone(c.left), func(l left) bool { return !of(l.service) })
	out.older = slices.DeleteFunc(slices.Clone(c.older), func(k key) bool { return !of(k) })
	out.already = slices.DeleteFunc(slices.Clone(c.already), func(k key) bool { return !of(k) })
	out.finish()
	return out, len(out.added)+len(out.left)+len(out.already) > 0
}

// finish fills in what is derived from the decision.
func (c *Client) finish() {
	c.Connect, c.Services, c.Already, c.Left, c.Steps = "", nil, nil, nil, nil
	c.Notes = slices.Clone(c.notes)
	entries := slices.Clone(c.listed)
	for _, a := range c.added {
		entries = append(entries, a.entries...)
		c.Services = append(c.Services, a.service.String())
		if a.note != "" {
			c.Notes = append(c.Notes, a.note)
		}
	}
	for _, k := range c.already {
		c.Already = append(c.Already, k.String())
	}
	for _, l := range c.left {
		c.Left = append(c.Left, Left{l.service.String(), l.why})
	}
	c.RollOut = len(c.older) > 0
	if len(c.added) > 0 {
		c.Connect = api.FormatConnect(entries)
	}
	if !c.todo() {
		c.Wave, c.OptIn, c.Notes = 0, false, nil
		return
	}
	c.Wave = max(c.own, 1)
	for _, a := range c.added {
		c.Wave = max(c.Wave, a.wave+1)
	}
	c.steps()
}

// steps fills in the manual steps.
func (c *Client) steps() {
	step := func(what, back string, command ...string) {
		text, ok := api.Command([]string{c.Namespace, c.name}, command...)
		if !ok {
			what, text, back = what+" ("+text+")", "", ""
		}
		c.Steps = append(c.Steps, Step{What: what, Command: text, Back: back})
	}
	if c.OptIn {
		step("opt the namespace in, once", "", "kubectl", "label", "namespace", c.Namespace, api.LabelInject+"="+api.InjectEnabled)
	}
	object := []string{strings.ToLower(c.kind), c.name, "-n", c.Namespace}
	rollout := strings.ToLower(c.kind) + "/" + c.name
	switch {
	case c.Connect != "" && c.path() != nil:
		patch := func(data []byte) []string {
			return append(append([]string{"kubectl", "patch"}, object...), "-p", string(data))
		}
		back := api.CommandText([]string{c.Namespace, c.name}, patch(c.merge(nil, c.old()))...)
		step("let its proxy call "+strings.Join(c.Services, ", "), back, patch(c.merge(nil, c.Connect))...)
	case c.Connect != "":
		c.Steps = append(c.Steps, Step{What: fmt.Sprintf("set annotation %s: %q in the template of its pods, and replace these", api.AnnotationConnect, c.Connect)})
	case api.Restartable(c.kind):
		step("roll it out: pods are older than the annotation, or than the ports of the Services", "", "kubectl", "rollout", "restart", rollout, "-n", c.Namespace)
	default:
		c.Steps = append(c.Steps, Step{What: "replace its pods, which are older than the annotation, or than the ports of the Services"})
	}
	if api.Restartable(c.kind) {
		step("wait until its pods are replaced", "", "kubectl", "rollout", "status", rollout, "-n", c.Namespace)
	}
	look := []string{"kubectl", "get", "pods", "-n", c.Namespace}
	if c.selector != "" {
		look = append(look, "-l", c.selector)
	}
	step("see that the status of none of its pods has a note NotConnected", "", append(look, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\t"}{.metadata.annotations.servingcert\.dev/status}{"\n"}{end}`)...)
}

// path returns where the pod template is in an object of the kind that can be patched; nil for others.
func (c *Client) path() []string {
	switch {
	case c.kind == "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}
	case api.Restartable(c.kind):
		return []string{"spec", "template"}
	}
	return nil
}

// old returns the value that the template has before the steps; nil if it has none.
func (c *Client) old() any {
	if !c.has {
		return nil
	}
	return c.before
}

// merge returns the strategic merge patch that sets the annotation, or removes it if the value is nil.
func (c *Client) merge(metadata map[string]any, value any) []byte {
	spec := map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationConnect: value}}}
	path := c.path()
	for i := len(path) - 1; i > 0; i-- {
		spec = map[string]any{path[i]: spec}
	}
	return body(metadata, spec)
}

// Merge returns the strategic merge patch for the API server, which refuses it if the workload is another one, or has
// changed since it was read.
func (c *Client) Merge(uid, resourceVersion string) []byte {
	return c.merge(map[string]any{"uid": uid, "resourceVersion": resourceVersion}, c.Connect)
}

// Back returns the command that takes the annotation back; empty if there is none.
func (c *Client) Back() string {
	for _, s := range c.Steps {
		if s.Back != "" {
			return s.Back
		}
	}
	return ""
}

// For returns the client's plan for those of the Services, and whether there is anything to do for them.
func (c *Client) For(service func(namespace, name string) bool) (Client, bool) {
	out, _ := c.only(func(k key) bool { return service(k.namespace, k.name) })
	return out, out.todo()
}

// Hosts returns the Services to which the pods are to connect, after the steps: SERVICE.NAMESPACE.svc.
func (c *Client) Hosts() (out []string) {
	for _, a := range c.added {
		out = append(out, a.service.name+"."+a.service.namespace+".svc")
	}
	for _, k := range c.already {
		out = append(out, k.name+"."+k.namespace+".svc")
	}
	return out
}

// Unchanged reports whether the annotation of the pod template is still the one of the plan.
func (c *Client) Unchanged(template map[string]string) bool {
	value, has := template[api.AnnotationConnect]
	return has == c.has && value == c.before
}

// Complete returns the whole workload with the annotation, as a manifest for a repository; nil if the annotation
// stays, or the manifest is not known.
func (c *Client) Complete() map[string]any {
	if c.Connect == "" || c.content == nil {
		return nil
	}
	out := asData(c.content)
	var at any = out
	for _, step := range c.template {
		switch step := step.(type) {
		case string:
			object, _ := at.(map[string]any)
			at = object[step]
		case int:
			list, _ := at.([]any)
			if step >= len(list) {
				return nil
			}
			at = list[step]
		}
	}
	template, ok := at.(map[string]any)
	if !ok {
		return nil
	}
	below(below(template, "metadata"), "annotations")[api.AnnotationConnect] = c.Connect
	return out
}

// compareClients sorts clients by wave, namespace and workload.
func compareClients(a, b Client) int {
	return cmp.Or(cmp.Compare(last(a.Wave), last(b.Wave)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload))
}
