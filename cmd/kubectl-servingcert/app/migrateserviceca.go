package app

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/servingcert/servingcert/pkg/pki"
)

// serviceCAFlags are the flags of "migrate service-ca".
type serviceCAFlags struct {
	*plugin
	namespace, instance string
	check               bool
	timeout             time.Duration
}

func (p *plugin) migrateServiceCACommand() *cobra.Command {
	return verb{
		about: "Take over from OpenShift's service-ca: import its CA, replace it with a new CA, and print the next steps.",
		usage: "service-ca [--check] [flags]",
		examples: `# Print the next step and what blocks it. Changes nothing.
kubectl servingcert migrate service-ca --check

# Carry out the next steps, up to a manual one. Run it again after that.
kubectl servingcert migrate service-ca`,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := serviceCAFlags{plugin: p}
			fs.BoolVar(&f.check, "check", false, "only print the next step and what blocks it; exit code 1 if anything does")
			fs.DurationVar(&f.timeout, "timeout", time.Hour, "how long to follow the CA; it continues without this command")
			fs.StringVar(&f.instance, "instance", api.DefaultInstance, "the signer's --instance")
			fs.StringVarP(&f.namespace, "namespace", "n", api.DefaultNamespace, "namespace of servingcert itself")
			return func(ctx context.Context, args []string) error {
				switch {
				case len(args) > 0:
					return usagef("unexpected argument %q", args[0])
				case f.timeout <= 0:
					return usagef("--timeout %s: must be positive", f.timeout)
				}
				return f.run(ctx)
			}
		},
	}.command()
}

func (f *serviceCAFlags) run(ctx context.Context) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	for last := status.MigrationStep(""); ; {
		facts, err := c.Migration(ctx, f.namespace, f.instance)
		if err != nil {
			return err
		}
		facts.Now = time.Now()
		m := status.DecideMigration(facts)
		if last == "" {
			f.print("", m.Found)
		}
		if m.Step == "" || f.check {
			f.print("blocked by: ", m.InTheWay)
		}
		switch {
		case m.Step == "":
			f.print("next: ", m.Next)
			return inTheWay(m)
		case f.check:
			f.print("would do: ", []string{m.Text})
			return inTheWay(m)
		}
		if m.Step == last {
			return fmt.Errorf("the last step had no effect: %s. See kubectl servingcert status", m.Text)
		}
		f.print("", []string{m.Text})
		if err := f.do(ctx, c, m); err != nil {
			return err
		}
		last = m.Step
	}
}

func (f *serviceCAFlags) print(begin string, lines []string) {
	for _, line := range lines {
		_, _ = fmt.Fprintf(f.out, "%s%s\n", begin, line)
	}
}

func inTheWay(m status.Migration) error {
	if len(m.InTheWay) > 0 {
		return errReported
	}
	return nil
}

// do carries out a step.
func (f *serviceCAFlags) do(ctx context.Context, c *cluster.Cluster, m status.Migration) error {
	bar := f.bar()
	watcher := &follow.Watcher{Cluster: c, Namespace: f.namespace, Out: bar.Above(f.out), Bar: bar, Now: time.Now, Timeout: f.timeout, Timing: f.timing.Follow}
	switch m.Step {
	case status.MigrationImport:
		return f.writeImport(ctx, c, m.Key)
	case status.MigrationFollow:
		return watcher.Imported(ctx, m.Root)
	case status.MigrationRotate:
		rotate := rotateFlags{plugin: f.plugin, namespace: f.namespace, reason: "replace service-ca's CA " + m.Root[:16], wait: true, timeout: f.timeout, text: f.streams}
		rotate.done = rotationOf(&rotate)
		return rotate.rotate(ctx, c)
	case status.MigrationAdopt:
		return f.adopt(ctx, c, m.Adopt)
	}
	return fmt.Errorf("unknown step %q", m.Step)
}

// writeImport writes the Secret that the signer imports. It writes the roots first: the Secret starts the import.
func (f *serviceCAFlags) writeImport(ctx context.Context, c *cluster.Cluster, key status.SigningKey) error {
	if len(key.Former) > 0 {
		if err := f.addRoots(ctx, c, string(pki.EncodeCertificates(key.Former...))); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: api.CAImportName}, Type: corev1.SecretTypeTLS, Data: key.Import(),
	}
	if _, err := c.Client.CoreV1().Secrets(f.namespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", f.namespace, api.CAImportName, err)
	}
	return nil
}

// addRoots adds a key to the ConfigMap of additional roots.
func (f *serviceCAFlags) addRoots(ctx context.Context, c *cluster.Cluster, roots string) error {
	configMaps := c.Client.CoreV1().ConfigMaps(f.namespace)
	data := map[string]string{api.OpenShiftBundleKey: roots}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: api.ExtraRootsName}, Data: data}
	_, err := configMaps.Create(ctx, cm, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		patch, _ := json.Marshal(map[string]any{"data": data}) // strings never fail to marshal
		_, err = configMaps.Patch(ctx, api.ExtraRootsName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", f.namespace, api.ExtraRootsName, err)
	}
	return nil
}

// adopt labels the Secrets as managed, unless they have changed since they were read.
func (f *serviceCAFlags) adopt(ctx context.Context, c *cluster.Cluster, secrets []status.ServiceCASecret) error {
	for _, s := range secrets {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": s.ResourceVersion, "labels": map[string]string{api.LabelManagedBy: f.instance},
		}})
		if err != nil {
			return err
		}
		if _, err := c.Client.CoreV1().Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
			return fmt.Errorf("set label %s on Secret %s/%s: %w", api.LabelManagedBy, s.Namespace, s.Name, err)
		}
	}
	return nil
}
