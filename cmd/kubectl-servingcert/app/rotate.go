package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/follow"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// rotateFlags are the flags of rotate-ca.
type rotateFlags struct {
	*plugin
	namespace                    string
	reason                       string
	force, distrust, replaceLost bool
	clients                      bool
	proceed                      int
	yes, wait, dryRun            bool
	timeout                      time.Duration
	output                       string

	text streams // human-readable text; standard error with -o json and the like
	done rotation
}

func (p *plugin) rotateCommand() *cobra.Command {
	return verb{
		about: "Rotate the CA, and follow the rotation until all certificates are replaced and served.",
		usage: "rotate-ca --reason TEXT [--force | --distrust-now | --replace-lost] [flags]\n  kubectl servingcert rotate-ca --proceed GENERATION [flags]",
		examples: `# Replace the CA with an overlap, so that no client fails.
kubectl servingcert rotate-ca --reason "yearly drill"

# The CA's key was stolen: list what breaks if the CA is distrusted now.
kubectl servingcert rotate-ca --distrust-now --reason "incident 42" --dry-run

# Replace the CA that signs identities of pods.
kubectl servingcert rotate-ca --clients --reason "yearly drill"`,
		outputs: actionOutputs,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := rotateFlags{plugin: p}
			fs.StringVar(&f.reason, "reason", "", "reason for the rotation, in one line; repeating a reason in the same mode does not start another rotation")
			fs.BoolVar(&f.force, "force", false, "rotate even if clients that hold only the oldest root can no longer verify servers")
			fs.BoolVar(&f.distrust, "distrust-now", false, "distrust everything that the CA signed at once, because its key was stolen; first lists what breaks")
			fs.BoolVar(&f.replaceLost, "replace-lost", false, "create a new CA in place of one that is lost or corrupt; restoring a backup instead breaks no client")
			fs.BoolVar(&f.clients, "clients", false, "rotate the CA that signs the identities of pods instead")
			fs.IntVar(&f.proceed, "proceed", 0, "let this waiting generation sign although some targets do not hold its root")
			fs.BoolVar(&f.dryRun, "dry-run", false, "only print what would be requested and, with --distrust-now and --replace-lost, what would break")
			fs.BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
			fs.BoolVar(&f.wait, "wait", true, "follow the rotation until certificates are replaced and pods serve them")
			fs.DurationVar(&f.timeout, "timeout", time.Hour, "how long to follow the rotation; it continues without this command")
			fs.StringVarP(&f.output, "output", "o", "text", actionOutputs.String())
			fs.StringVarP(&f.namespace, "namespace", "n", api.DefaultNamespace, "namespace of servingcert itself")
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx)
			}
		},
	}.command()
}

func (f *rotateFlags) validate(args []string) error {
	modes := 0
	for _, set := range []bool{f.force, f.distrust, f.replaceLost} {
		if set {
			modes++
		}
	}
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q: give the reason with --reason", args[0])
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	case actionOutputs.validate(f.output) != nil:
		return actionOutputs.validate(f.output)
	case f.proceed < 0:
		return usagef("--proceed %d: must be the number of a CA generation", f.proceed)
	case f.proceed > 0 && (modes > 0 || f.reason != ""):
		return usagef("--proceed continues a rotation that was requested: it cannot be combined with --reason, --force, --distrust-now or --replace-lost")
	case f.proceed > 0 && f.clients:
		return usagef("--proceed has no effect with --clients: no server would verify a generation whose root is not in ClusterTrustBundle %s", api.ClientBundleName)
	case f.proceed > 0:
		return nil
	case modes > 1:
		return usagef("--force, --distrust-now and --replace-lost are mutually exclusive")
	case f.reason == "":
		return usagef("--reason is required: one line; repeating a reason does not start another rotation")
	}
	if _, err := api.ParseRotateRequest(f.request().Annotations()); err != nil {
		return usagef("--reason: %w", err)
	}
	return nil
}

func (f *rotateFlags) request() api.RotateRequest {
	mode := api.RotateOverlap
	switch {
	case f.force:
		mode = api.RotateForce
	case f.distrust:
		mode = api.RotateDistrust
	case f.replaceLost:
		mode = api.RotateReplaceLost
	}
	return api.RotateRequest{Mode: mode, Reason: f.reason}
}

func (f *rotateFlags) run(ctx context.Context) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	f.text, f.done = f.aside(f.output), rotationOf(f)
	failed := f.rotate(ctx, c)
	if err := f.done.write(f.out, f.output); err != nil {
		return err
	}
	return failed
}

// rotate requests and follows the rotation, and records it in f.done.
func (f *rotateFlags) rotate(ctx context.Context, c *cluster.Cluster) error {
	if f.proceed > 0 {
		return f.letProceed(ctx, c)
	}
	before, err := f.makeRequest(ctx, c)
	if err != nil || before == nil || !f.wait {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return f.done.followed(f.watcher(c).Rotation(ctx, f.request(), before))
}

func (f *rotateFlags) watcher(c *cluster.Cluster) *follow.Watcher {
	bar := f.text.bar()
	return &follow.Watcher{Cluster: c, Namespace: f.namespace, Out: bar.Above(f.text.out), Bar: bar, Now: time.Now, Timeout: f.timeout, Timing: f.timing.Follow, Identities: f.clients}
}

// makeRequest writes the request, unless it was written before. It returns the leaves from before the rotation; nil
// if there is nothing to follow.
func (f *rotateFlags) makeRequest(ctx context.Context, c *cluster.Cluster) (follow.Leaves, error) {
	asked := false
	for {
		cm, err := f.status(ctx, c)
		if err != nil {
			return nil, err
		}
		decision, err := status.DecideRequest(cm, f.request())
		if err != nil {
			return nil, err
		}
		_, _ = io.WriteString(f.text.out, decision.Text)
		f.done.decided(cm, decision)
		if decision.Over {
			return nil, nil
		}
		if err := f.requireProcesses(ctx, c); err != nil {
			return nil, err
		}
		before, err := f.leaves(ctx, c)
		if err != nil || !decision.Write {
			return before, err
		}
		if f.request().Breaks() && !asked {
			if err := f.confirm(ctx, c, cm); err != nil {
				return nil, err
			}
			asked = true
		}
		if f.dryRun {
			_, _ = fmt.Fprintf(f.text.out, "would be requested: %s %q\n", f.request().Mode, f.request().Reason)
			return nil, nil
		}
		switch err := f.write(ctx, c, cm, f.request().Annotations()); {
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			continue // decide again, from the new status
		case err != nil:
			return nil, fmt.Errorf("request the rotation: %w", err)
		}
		_, _ = fmt.Fprintf(f.text.out, "requested: %s %q\n", f.request().Mode, f.request().Reason)
		f.done.Request = requestWritten
		return before, nil
	}
}

// requireProcesses returns an error if the rotation would be followed, but a process that performs it is not running.
func (f *rotateFlags) requireProcesses(ctx context.Context, c *cluster.Cluster) error {
	if !f.wait || f.dryRun {
		return nil
	}
	_, err := f.text.requireRunning(ctx, c, withNamespace(f.namespace), withoutWaiting, follow.Processes(f.clients)...)
	return err
}

// status reads the status of the CA, which may be missing after a loss.
func (f *rotateFlags) status(ctx context.Context, c *cluster.Cluster) (*corev1.ConfigMap, error) {
	cm, err := c.StatusOf(ctx, f.namespace, f.statusName())
	missing := cluster.NotInstalledError{}
	switch {
	case !errors.As(err, &missing):
		return cm, err
	case !f.replaceLost && f.clients:
		return nil, err
	case !f.replaceLost:
		return nil, withNamespace(f.namespace).missing(ctx, c, missing)
	case f.clients: // the signer replaces it only if it is lost
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.statusName()}}
		cm.Data = api.CAStatus{Problem: api.CAMessage{Reason: api.CALost, Message: err.Error()}}.Data()
		return cm, nil
	}
	services, err := c.Services(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		if status.IsLost(s.Reason) { // the signer also reports it on Services
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: api.CAStatusName}}
			cm.Data = api.CAStatus{Problem: api.CAMessage{Reason: s.Reason, Message: "reported by Service " + s.String()}}.Data()
			return cm, nil
		}
	}
	return nil, withNamespace(f.namespace).missing(ctx, c, missing)
}

// leaves returns the leaves in use. They are needed only for modes in which the signer counts no certificates.
func (f *rotateFlags) leaves(ctx context.Context, c *cluster.Cluster) (follow.Leaves, error) {
	before := follow.Leaves{}
	if !f.request().Breaks() || f.clients {
		return before, nil
	}
	services, err := c.SignedServices(ctx)
	for _, s := range services {
		before[s.String()] = s.Leaf
	}
	return before, err
}

// write sets annotations, unless the ConfigMap has changed since it was read.
func (f *rotateFlags) write(ctx context.Context, c *cluster.Cluster, cm *corev1.ConfigMap, annotations map[string]string) error {
	if cm.ResourceVersion == "" {
		lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.statusName(), Annotations: annotations}}
		_, err := c.Client.CoreV1().ConfigMaps(f.namespace).Create(ctx, lost, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": cm.ResourceVersion, "annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().ConfigMaps(f.namespace).Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
