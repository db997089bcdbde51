package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/apply"
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
	waves := apply.Chosen(p)
	if err := writeLines(f.screen, outlook(p, waves)+unread(p)); err != nil {
		return err
	}
	switch {
	case len(waves) == 0 && len(p.Unread) > 0:
		return errors.New("nothing to do was found, but not everything could be read")
	case len(waves) == 0 && leftAlone(p) > 0:
		return fmt.Errorf("%s left alone", api.Count(leftAlone(p), "Service"))
	case len(waves) == 0:
		return notSeen("nothing to do", unseen(p, waves))
	case len(p.Forbidden) > 0:
		return errors.New("this user lacks permissions. Nothing was changed")
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	if _, err := f.requireRunning(ctx, c, anyInstallation(f.system), "", "signer"); err != nil { // Run waits for certificates
		return err
	}
	if !f.yes && !f.dryRun {
		if err := askConfirmation(f.streams); err != nil {
			return err
		}
	}
	a := apply.Applier{Client: c.Client, FieldManager: fieldManager, Out: f.out, DryRun: f.dryRun, Timeout: f.timeout, Timing: f.timing.Apply, Secret: c.SecretOf}
	if err := a.Run(ctx, waves); err != nil {
		return err
	}
	if f.dryRun {
		_, err = fmt.Fprintln(f.out, "Nothing was changed. Without --dry-run, a new pod is tried first: no pod is replaced if it would be refused.")
		return err
	}
	if err := notSeen("done", append(a.Unseen, unseen(p, waves)...)); err != nil {
		return err
	}
	if n := leftAlone(p); n > 0 {
		return fmt.Errorf("done, but %s left alone", api.Count(n, "Service"))
	}
	if len(p.Unread) > 0 {
		return errors.New("done, but not everything could be read")
	}
	_, err = fmt.Fprintln(f.out, "Done. If the Services come from a repository, make the same additions there: kubectl servingcert plan -f FILE -o yaml")
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
func unseen(p plan.Plan, waves [][]plan.Service) (out []string) {
	changed := slices.Concat(waves...)
	for _, s := range p.Services {
		if s.Unseen() && !slices.ContainsFunc(changed, func(c plan.Service) bool { return c.Namespace == s.Namespace && c.Name == s.Name }) {
			out = append(out, s.Namespace+"/"+s.Name)
		}
	}
	return out
}

// outlook returns the changes that are about to be made, and the Services that are skipped.
func outlook(p plan.Plan, waves [][]plan.Service) string {
	var b strings.Builder
	rollouts, labelled := map[string]bool{}, map[string]bool{}
	for _, wave := range waves {
		for _, s := range wave {
			if s.OptIn && !labelled[s.Namespace] {
				labelled[s.Namespace] = true
				fmt.Fprintf(&b, "wave %d  namespace %s: label %s=%s, which opts in all its pods, and its Services that request a certificate\n", s.Wave, api.Escape(s.Namespace), api.LabelInject, api.InjectEnabled)
			}
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
	}
	for _, s := range p.Services {
		if managed(s) {
			fmt.Fprintf(&b, "left alone: %s/%s: %s manages it: change its source (plan -o yaml)\n", api.Escape(s.Namespace), api.Escape(s.Name), s.ManagedBy)
		}
	}
	if len(waves) == 0 {
		b.WriteString("nothing to do for --apply\n")
	}
	return b.String()
}

// managed reports whether the Service is skipped because another tool manages it.
func managed(s plan.Service) bool { return s.ManagedBy != "" && s.Wave > 0 && s.Way != plan.WayMove }

func leftAlone(p plan.Plan) (n int) {
	for _, s := range p.Services {
		if managed(s) {
			n++
		}
	}
	return n
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
