package plan

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// decision is the decision about one workload.
type decision struct {
	after
	Workload
	client     Client
	calls      map[key][]made
	candidates []*candidate
	outcomes   map[key]outcome
}

// candidate is a Service that may be added to the annotation.
type candidate struct {
	key
	entries []api.Connect
	why     string // why not all its ports can be; empty if they can
}

// decide decides which Services the proxy of a workload calls; nil if the workload makes no plaintext calls.
func (a after) decide(id string, calls map[key][]made) *decision {
	var wanted []key
	for k, list := range calls {
		if slices.ContainsFunc(list, func(c made) bool { return c.wants }) {
			wanted = append(wanted, k)
		}
	}
	at := a.byID[id]
	if len(wanted) == 0 || len(at) == 0 {
		return nil
	}
	slices.SortFunc(wanted, compareKeys)
	w := a.workloads[at[0]]
	d := &decision{after: a, Workload: w, calls: calls, outcomes: map[key]outcome{}}
	d.client = Client{Namespace: w.Namespace, Workload: w.String(), kind: w.Kind, name: w.Name, selector: labels.Set(w.Pod.Labels).String()}
	d.client.before, d.client.has = w.Pod.Annotations[api.AnnotationConnect], hasKey(w.Pod.Annotations, api.AnnotationConnect)
	why := d.impossible()
	if len(at) > 1 {
		why = "it has several pod templates: annotate them yourself"
	}
	if why != "" {
		for _, k := range wanted {
			d.leave(k, why)
		}
	} else {
		d.sort(wanted)
		d.settle(wanted)
		d.accept(wanted)
	}
	d.finish()
	return d
}

// impossible returns why the pods of the workload cannot connect at all; empty if they can.
func (d *decision) impossible() string {
	if why := cmp.Or(d.leftAlone(d.Namespace), exempt(d.Workload)); why != "" {
		return why
	}
	if _, err := api.ParsePod(&d.Pod.ObjectMeta); err != nil {
		return err.Error()
	}
	return ""
}

func (d *decision) leave(k key, why string) {
	d.client.left = append(d.client.left, left{k, why})
	d.outcomes[k] = outcome{moves: MovesByHand, why: why}
}

// sort sorts the Services into those to which the pods connect already, those that are left, and candidates.
func (d *decision) sort(wanted []key) {
	now := d.choose(d.Workload, nil, wanted)
	d.client.listed = now.Listed
	for _, k := range wanted {
		t := targetOf(now.Connect, k)
		switch {
		case t != nil && closes(t, d.calls[k]) != 0:
			d.leave(k, fmt.Sprintf("annotation %s does not list port %d of it, so that it is closed for its pods", api.AnnotationConnect, closes(t, d.calls[k])))
		case t != nil:
			d.client.already = append(d.client.already, k)
			d.outcomes[k] = outcome{moves: MovesConnected, names: t.Names}
			if d.outdated(t.Host()) {
				d.client.older = append(d.client.older, k)
				d.outcomes[k] = outcome{moves: MovesConnect, names: t.Names}
			}
		case names(now.Listed, k, d.Namespace):
			d.leave(k, whyLeft(now, k))
		case now.Listed != nil && len(now.Listed) == 0:
			d.leave(k, fmt.Sprintf("annotation %s is %q", api.AnnotationConnect, api.ConnectNone))
		case !api.MayCall(d.services[k], d.Namespace, cmp.Or(d.Pod.Spec.ServiceAccountName, "default")):
			d.leave(k, fmt.Sprintf("annotation %s of the Service does not list %s/%s: add it first", api.AnnotationClients, d.Namespace, cmp.Or(d.Pod.Spec.ServiceAccountName, "default")))
		case !api.Asks(d.services[k]):
			d.leave(k, "the plan gives it no TLS port: "+cmp.Or(d.plans[k].Why, "it requests no certificate"))
		default:
			entry := api.Connect{Service: k.name}
			if k.namespace != d.Namespace {
				entry.Namespace = k.namespace
			}
			d.candidates = append(d.candidates, &candidate{key: k, entries: []api.Connect{entry}})
		}
	}
}

// outdated reports whether a pod of the workload is known that does not connect to the host.
func (d *decision) outdated(host string) bool {
	r := d.running[d.Namespace+" "+d.Workload.String()]
	return r != nil && r.connects[host] < r.pods
}

// whyLeft returns why the webhook leaves the Service out.
func whyLeft(c choose.Choice, k key) string {
	for _, l := range c.Left {
		if l.Service == k.name+"."+k.namespace {
			return l.Why
		}
	}
	return "its pods cannot connect to it"
}

// settle removes the candidates that the webhook would leave out, until all others are connected. A Service that has
// ports without TLS is tried again with the ports that the workload calls.
func (d *decision) settle(wanted []key) {
	for again := true; again && len(d.candidates) > 0; {
		again = false
		choice := d.choose(d.Workload, d.entries(), wanted)
		var still []*candidate
		for _, c := range d.candidates {
			why := d.refused(choice, c.key)
			ports := d.portsOf(c.key)
			switch {
			case why == "":
				still = append(still, c)
				continue
			case c.why == "" && len(ports) > 0:
				for i := range ports {
					ports[i].Service, ports[i].Namespace = c.entries[0].Service, c.entries[0].Namespace
				}
				c.why, c.entries = why, ports
				still = append(still, c)
			default:
				d.leave(c.key, why)
			}
			again = true
		}
		d.candidates = still
		for _, k := range d.client.already { // those that have been connected stay so
			if targetOf(choice.Connect, k) == nil && len(d.candidates) > 0 {
				last := d.candidates[len(d.candidates)-1]
				d.candidates, again = d.candidates[:len(d.candidates)-1], true
				d.leave(last.key, "with it, "+k.String()+" would be left out")
			}
		}
	}
}

// entries returns the entries of the annotation with those of the candidates.
func (d *decision) entries() []api.Connect {
	out := slices.Clone(d.client.listed)
	for _, c := range d.candidates {
		out = append(out, c.entries...)
	}
	return out
}

// refused returns why the calls to the Service cannot go through the proxy; empty if they can.
func (d *decision) refused(choice choose.Choice, k key) string {
	t := targetOf(choice.Connect, k)
	if t == nil {
		return whyLeft(choice, k)
	}
	for _, p := range t.Ports {
		if why := d.served(k, p.TLS); why != "" {
			return why
		}
	}
	for _, c := range d.calls[k] {
		if c.own != "" {
			return c.own
		}
	}
	if port := closes(t, d.calls[k]); port != 0 {
		return fmt.Sprintf("it calls port %d of it too, which would be closed for its pods", port)
	}
	if !slices.ContainsFunc(d.calls[k], func(c made) bool { return c.wants && slices.Contains(t.Names, c.host) }) {
		return "its programs do not call it by a name that a hosts file can have for a Service"
	}
	return ""
}

// portsOf returns an entry for each port of the Service that the workload calls; nil if one of them is not known.
func (d *decision) portsOf(k key) (out []api.Connect) {
	for _, c := range d.calls[k] {
		if c.port == 0 {
			return nil
		}
		if e := (api.Connect{Port: c.port}); !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b api.Connect) int { return cmp.Compare(a.Port, b.Port) })
	return out
}

// accept adds the candidates to the client, unless the webhook gives its pods no proxy.
func (d *decision) accept(wanted []key) {
	if len(d.candidates) == 0 {
		return
	}
	entries := d.entries()
	why := d.injected(d.Workload, entries, wanted)
	if len(entries) > api.MaxConnects {
		why = fmt.Sprintf("more than %d Services are listed", api.MaxConnects)
	}
	choice := d.choose(d.Workload, entries, wanted)
	for _, c := range d.candidates {
		if why != "" {
			d.leave(c.key, why)
			continue
		}
		t := targetOf(choice.Connect, c.key)
		d.outcomes[c.key] = outcome{moves: MovesConnect, names: t.Names}
		a := added{service: c.key, entries: c.entries, wave: d.plans[c.key].Wave}
		if c.why != "" {
			a.note = fmt.Sprintf("all other ports of %s are then closed for its pods under the names of the Service, because %s", c.key, c.why)
		}
		d.client.added = append(d.client.added, a)
		for _, note := range d.egress(d.Workload, c.key, t.Ports) {
			d.client.notes = appendNew(d.client.notes, note)
		}
	}
}

// finish fills in what is known of the workload.
func (d *decision) finish() {
	c := &d.client
	slices.SortFunc(c.left, func(a, b left) int { return compareKeys(a.service, b.service) })
	if c.todo() {
		if !c.has && len(c.listed) > 0 && len(c.added) > 0 {
			c.notes = append(c.notes, "the annotation of the template takes the place of that of the Service or the Namespace, whose entries it repeats")
		}
		c.notes = append(c.notes, d.quotas(d.Namespace)...)
		in, known := d.optedIn(d.Namespace)
		c.OptIn = !in || !known
		c.content, c.template = d.manifest()
		metadata := at(c.content, "metadata")
		c.ManagedBy = managedBy(texts(metadata, "annotations"), texts(metadata, "labels"))
	}
	for _, k := range d.behindWorkload(d.Workload) {
		if s := d.plans[k]; s.Way == WayPort || s.Way == WayNative || s.Way == WayRollout {
			c.own = max(c.own, s.Wave)
		}
	}
	c.finish()
}

// behindWorkload returns the Services that select the workload's pods.
func (a after) behindWorkload(w Workload) (out []key) {
	for _, e := range a.index.byNamespace[w.Namespace] {
		if api.Selects(e.svc, w.Pod) && !api.OneShot(w.Pod) {
			out = append(out, key{w.Namespace, e.svc.Name})
		}
	}
	return out
}

func hasKey(m map[string]string, key string) bool {
	_, has := m[key]
	return has
}
