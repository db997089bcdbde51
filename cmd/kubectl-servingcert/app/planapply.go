package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/apply"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// validateApply checks the flags of --apply.
func (f *planFlags) validateApply() error {
	switch {
	case !f.apply && (f.dryRun || f.yes):
		return usagef("--dry-run and --yes require --apply")
	case !f.apply:
		return nil
	case len(f.from.files) > 0:
		return usagef("--apply and -f are mutually exclusive: it changes a cluster; -o yaml prints the Services for a repository")
	case f.format != "text":
		return usagef("--apply and -o are mutually exclusive")
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	case len(f.names) == 0 && f.from.namespace == "" && !f.all:
		return usagef("--apply: name Services, or use -n NAMESPACE or -A")
	}
	for _, name := range f.names {
		if !strings.Contains(name, "/") && f.from.namespace == "" {
			return usagef("--apply: %q: must be NAMESPACE/NAME without -n NAMESPACE", name)
		}
	}
	return nil
}

// carryOut prints the changes, asks for confirmation, and makes them.
func (f *planFlags) carryOut(ctx context.Context, p plan.Plan) error {
	waves := apply.Chosen(p, f.all)
	if err := writeLines(f.screen, outlook(p, waves, f.all)+unread(p)); err != nil {
		return err
	}
	switch {
	case len(waves) == 0 && len(p.Unread) > 0:
		return errors.New("nothing to do was found, but not everything could be read")
	case len(waves) == 0 && leftAlone(p, f.all) != "":
		return errors.New(leftAlone(p, f.all) + " left alone")
	case len(waves) == 0:
		return notSeen("nothing to do", unseen(p, waves))
	case len(p.Forbidden) > 0:
		return errors.New("this user lacks permissions. Nothing was changed")
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(waves, func(w apply.Wave) bool { return len(w.Services) > 0 }) {
		if _, err := f.requireRunning(ctx, c, anyInstallation(f.system), "", "signer"); err != nil { // Run waits for certificates
			return err
		}
	}
	if !f.yes && !f.dryRun {
		if err := askConfirmation(f.streams); err != nil {
			return err
		}
	}
	a := apply.Applier{Client: c.Client, FieldManager: fieldManager, Out: f.out, DryRun: f.dryRun, Timeout: f.timeout, Timing: f.timing.Apply, Secret: c.SecretOf}
	a.Called = func(ctx context.Context, namespace, name string) (plan.Called, error) {
		cfg, err := cluster.Config(f.kube)
		if err != nil {
			return plan.Called{}, err
		}
		return c.Called(ctx, cfg, namespace, name)
	}
	if err := a.Run(ctx, waves); err != nil {
		return err
	}
	if f.dryRun {
		_, err = fmt.Fprintln(f.out, "Nothing was changed. Without --dry-run, a new pod is tried first: no pod is replaced if it would be refused.")
		return err
	}
	return f.sayDone(p, waves, a)
}

// sayDone returns an error about what was not done, or not seen, although no step failed.
func (f *planFlags) sayDone(p plan.Plan, waves []apply.Wave, a apply.Applier) error {
	if err := notSeen("done", append(a.Unseen, unseen(p, waves)...)); err != nil {
		return err
	}
	if n := len(a.Unconnected); n > 0 {
		return fmt.Errorf("done, but %s not seen to connect: %s", api.Count(n, "client"), strings.Join(a.Unconnected, ", "))
	}
	if n := len(a.Unguarded); n > 0 {
		return fmt.Errorf("done, but the pods of %s not seen to have its list of clients: %s", api.Count(n, "Service"), strings.Join(a.Unguarded, ", "))
	}
	if what := leftAlone(p, f.all); what != "" {
		return fmt.Errorf("done, but %s left alone", what)
	}
	if len(p.Unread) > 0 {
		return errors.New("done, but not everything could be read")
	}
	_, err := fmt.Fprintln(f.out, "Done. If the Services come from a repository, make the same additions there: kubectl servingcert plan -f FILE -o yaml")
	return err
}

// notSeen returns an error that names the Services that were not seen to serve TLS; nil if there are none.
func notSeen(what string, services []string) error {
	if len(services) == 0 {
		return nil
	}
	return fmt.Errorf("%s, but %s not seen to serve TLS: %s", what, api.Count(len(services), "Service"), strings.Join(services, ", "))
}

// unseen returns the Services that are not changed, and were not seen to serve TLS.
func unseen(p plan.Plan, waves []apply.Wave) (out []string) {
	var changed []plan.Service
	for _, w := range waves {
		changed = append(changed, w.Services...)
	}
	for _, s := range p.Services {
		if s.Unseen() && !slices.ContainsFunc(changed, func(c plan.Service) bool { return c.Namespace == s.Namespace && c.Name == s.Name }) {
			out = append(out, s.Namespace+"/"+s.Name)
		}
	}
	return out
}

// outlook returns the changes that are about to be made, and the Services that are skipped.
func outlook(p plan.Plan, waves []apply.Wave, everywhere bool) string {
	var b strings.Builder
	rollouts, labelled := map[string]bool{}, map[string]bool{}
	label := func(wave int, optIn bool, namespace string) {
		if optIn && !labelled[namespace] {
			labelled[namespace] = true
			fmt.Fprintf(&b, "wave %d  namespace %s: label %s=%s, which opts in all its pods, and its Services that request a certificate\n", wave, api.Escape(namespace), api.LabelInject, api.InjectEnabled)
		}
	}
	for _, wave := range waves {
		for _, s := range wave.Services {
			label(s.Wave, s.OptIn, s.Namespace)
			fmt.Fprintf(&b, "wave %d  %s/%s: ", s.Wave, api.Escape(s.Namespace), api.Escape(s.Name))
			var what []string
			if s.Patch != nil {
				what = append(what, changes(s))
			}
			for _, w := range s.Workloads {
				if id := s.Namespace + "/" + w; !rollouts[id] && !slices.Contains(s.Without, w) {
					rollouts[id] = true
					what = append(what, "roll out "+api.Escape(w))
				}
			}
			b.WriteString(cmp.Or(strings.Join(what, ", "), "with the workloads above") + "\n")
			for _, port := range s.Ports {
				for _, n := range port.Notes {
					fmt.Fprintf(&b, "        note: port %d: %s\n", port.Port, api.Escape(n))
				}
			}
		}
		for _, c := range wave.Clients {
			label(c.Wave, c.OptIn, c.Namespace)
			b.WriteString(outlookOf(c))
		}
		for _, s := range wave.Guards {
			fmt.Fprintf(&b, "wave %d  %s/%s: %s\n", s.Guard.Wave, api.Escape(s.Namespace), api.Escape(s.Name), guardChange(s.Guard))
		}
	}
	b.WriteString(skippedOf(p, everywhere))
	if len(waves) == 0 {
		b.WriteString("nothing to do for --apply\n")
	}
	return b.String()
}

// skippedOf returns the Services, lists and clients that are skipped, and why.
func skippedOf(p plan.Plan, everywhere bool) string {
	var b strings.Builder
	for _, s := range p.Services {
		if managed(s) {
			fmt.Fprintf(&b, "left alone: %s/%s: %s manages it: change its source (plan -o yaml)\n", api.Escape(s.Namespace), api.Escape(s.Name), s.ManagedBy)
		}
	}
	for _, s := range p.Services {
		if why := guardAlone(p, s, everywhere); why != "" && !managed(s) {
			fmt.Fprintf(&b, "left alone: %s/%s: annotation %s: %s\n", api.Escape(s.Namespace), api.Escape(s.Name), api.AnnotationClients, api.Escape(why))
		}
	}
	for _, c := range p.Clients {
		if why := apply.Skipped(p, c, everywhere); why != "" && c.Wave > 0 {
			fmt.Fprintf(&b, "left alone: %s/%s: %s\n", api.Escape(c.Namespace), api.Escape(c.Workload), why)
		}
	}
	return b.String()
}

// outlookOf returns the change of a client.
func outlookOf(c plan.Client) string {
	what := "roll out"
	if c.Connect != "" {
		what = "annotation " + api.AnnotationConnect + "=" + c.Connect + ", roll out"
	}
	out := fmt.Sprintf("wave %d  %s/%s: %s\n", c.Wave, api.Escape(c.Namespace), api.Escape(c.Workload), api.Escape(what))
	for _, n := range c.Notes {
		out += "        note: " + api.Escape(n) + "\n"
	}
	return out
}

// guardChange returns the change of the list of clients of a Service.
func guardChange(g *plan.Guard) string {
	out := "annotation " + api.AnnotationClients + "=" + api.Escape(g.Clients)
	if g.Refuses {
		return out + ", which refuses all other clients"
	}
	return out + ", which refuses nobody"
}

// guardAlone returns why the list of clients of a Service is skipped; empty if it is not, or stays.
func guardAlone(p plan.Plan, s plan.Service, everywhere bool) string {
	if s.Guard == nil || s.Guard.Wave == 0 {
		return ""
	}
	return apply.GuardSkipped(p, s, everywhere)
}

// managed reports whether the Service is skipped because another tool manages it.
func managed(s plan.Service) bool { return s.ManagedBy != "" && s.Wave > 0 && s.Way != plan.WayMove }

// leftAlone returns how many Services and clients are skipped where the command changes others; empty if there are none.
func leftAlone(p plan.Plan, everywhere bool) string {
	services, clients := 0, 0
	for _, s := range p.Services {
		if managed(s) || s.ManagedBy != "" && guardAlone(p, s, everywhere) != "" { // clients that are skipped count themselves
			services++
		}
	}
	for _, c := range p.Clients {
		if c.Wave > 0 && apply.Skipped(p, c, everywhere) != "" && !apply.Outside(p, c, everywhere) {
			clients++
		}
	}
	var out []string
	if services > 0 {
		out = append(out, api.Count(services, "Service"))
	}
	if clients > 0 {
		out = append(out, api.Count(clients, "client"))
	}
	return strings.Join(out, " and ")
}

// changes returns the additions to a Service.
func changes(s plan.Service) string {
	var out []string
	for name, value := range s.Patch.Metadata.Annotations {
		out = append(out, "annotation "+name+"="+api.Escape(value))
	}
	if s.Patch.Spec != nil {
		out = append(out, "port "+api.Escape(s.Patch.Added()))
	}
	return strings.Join(out, ", ")
}
