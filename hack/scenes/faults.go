package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scenes/invariant"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

const away, refused = invariant.Away, invariant.Refused

// faults begins with those that end our processes. The new ones then run through all the others.
func faults() []*scene {
	return []*scene{
		{name: "kill-signer", what: "kill -9 of the leading signer while a new CA is introduced", tolerates: away, do: killSigner},
		{name: "kill-rotator", what: "kill -9 of the leading rotator", alike: true, tolerates: away, do: killLeader("rotator")},
		{name: "kill-trust", what: "kill -9 of the leading rotator of the bundle", alike: true, tolerates: away, do: killLeader("trust")},
		{name: "kill-webhook", what: "kill -9 of one of two webhooks", tolerates: refused, do: kill(func(w *world) []*installed.Process { return w.Of("webhook")[:1] })},
		{name: "kill-all", what: "kill -9 of all processes", tolerates: refused, do: kill(everything)},
		{name: "etcd-rewound", what: "etcd put back to a copy from before a new CA, then all controllers restarted", tolerates: refused, rewinds: true, do: rewind},
		{name: "apiserver", what: "kube-apiserver killed, and started again", tolerates: refused, do: broken(1,
			func(w *world) error { w.Plane.StopAPIServer(); return nil }, func(ctx context.Context, w *world) error { return w.Plane.StartAPIServer(ctx) })},
		{name: "etcd", what: "etcd killed, and started again", alike: true, tolerates: away, do: broken(1,
			func(w *world) error { w.Plane.StopEtcd(); return nil }, func(ctx context.Context, w *world) error { return w.Plane.StartEtcd(ctx) })},
		{name: "etcd-slow", what: "etcd gets each burst of writes 50 to 200 ms late", tolerates: away, do: broken(2,
			func(w *world) error { w.etcd.SetDelay(50*time.Millisecond, 200*time.Millisecond); return nil },
			func(_ context.Context, w *world) error { w.etcd.SetDelay(0, 0); return nil })},
		{name: "api-errors", what: "20 % of the processes' requests fail while all certificates are replaced by a new CA", tolerates: away, do: failRequests},
		{name: "clock-ahead", what: "clocks of signers and rotators an hour ahead", clock: true, tolerates: away, do: moveClock(time.Hour)},
		{name: "clock-behind", what: "the same an hour behind", clock: true, tolerates: away, do: moveClock(-time.Hour)},
		{name: "ca-deleted", what: "Secret servingcert-ca deleted, and restored from a backup", tolerates: away, do: deleteCA},
		{name: "disk-full", what: "disk full under etcd, then etcd started again", root: true, tolerates: away, do: fillDisk},
	}
}

// broken breaks something, waits for a multiple of the setting's hold, and repairs it.
func broken(times int, breaks func(*world) error, mend func(context.Context, *world) error) action {
	return func(ctx context.Context, k *work) (string, error) {
		if err := breaks(k.world); err != nil {
			return "", err
		}
		process.Sleep(ctx, time.Duration(times)*k.hold)
		return "", mend(ctx, k.world)
	}
}

// rotating requests a new generation of the CA, calls meanwhile, and waits until the generation signs.
func (k *work) rotating(ctx context.Context, meanwhile func() error) (said string, err error) {
	reason := "scenes: " + k.scene.name
	if err := k.Rotate(ctx, api.RotateForce, reason); err != nil {
		return "", err
	}
	if err := meanwhile(); err != nil {
		return "", err
	}
	if err := k.AwaitRotated(ctx, api.RotateForce, reason); err != nil {
		return "", err
	}
	status, err := k.CAStatus(ctx)
	return fmt.Sprintf("generation %d signs", status.Generation), err
}

func everything(w *world) []*installed.Process { return w.Processes }

// kill crashes processes. They are restarted automatically.
func kill(which func(*world) []*installed.Process) action {
	return broken(1, func(w *world) error {
		var errs []error
		for _, p := range which(w) {
			errs = append(errs, p.Crash())
		}
		return errors.Join(errs...)
	}, func(context.Context, *world) error { return nil })
}

func killLeader(kind string) action {
	return func(ctx context.Context, k *work) (string, error) {
		leader, err := k.Leader(ctx, kind)
		if err != nil {
			return "", err
		}
		start := time.Now()
		_, err = kill(func(*world) []*installed.Process { return []*installed.Process{leader} })(ctx, k)
		if err == nil {
			err = installed.Until(ctx, "another "+kind+" leads", func(ctx context.Context) error {
				_, err := k.Leader(ctx, kind)
				return err
			})
		}
		return fmt.Sprintf("another leads after %s at most", installed.Short(time.Since(start))), err
	}
}

func killSigner(ctx context.Context, k *work) (string, error) {
	return k.rotating(ctx, func() error {
		for deadline := time.Now().Add(k.hold); time.Now().Before(deadline); process.Sleep(ctx, poll) {
			if status, err := k.CAStatus(ctx); err != nil || status.Phase == api.PhaseWait {
				break
			}
		}
		_, err := killLeader("signer")(ctx, k)
		return err
	})
}

// failRequests fails requests while all certificates are replaced, so that there are many.
func failRequests(ctx context.Context, k *work) (string, error) {
	var answers []string
	said, err := k.rotating(ctx, func() error {
		before := k.apiServer.Count()
		k.apiServer.Fail(0.2)
		process.Sleep(ctx, 3*k.hold)
		k.apiServer.Fail(0)
		for answer, n := range k.apiServer.Count() {
			answers = append(answers, fmt.Sprintf("%s %d", answer, n-before[answer]))
		}
		slices.Sort(answers)
		return nil
	})
	return said + "; requests: " + strings.Join(answers, ", "), err
}

// moveClock moves the clocks, and waits until the signer reports it.
func moveClock(ahead time.Duration) action {
	return broken(2, func(w *world) error { return w.clock.Set(ahead) }, func(ctx context.Context, w *world) error {
		noticed := installed.Until(ctx, "a Service with reason "+string(signer.ReasonClockSkew), func(ctx context.Context) error {
			var services corev1.ServiceList
			err := w.Admin.List(ctx, &services)
			for i := range services.Items {
				if c := api.Condition(&services.Items[i], api.ConditionReady); c != nil && c.Reason == string(signer.ReasonClockSkew) {
					return nil
				}
			}
			return errors.Join(errors.New("there is none"), err)
		})
		return errors.Join(noticed, w.clock.Set(0))
	})
}

func deleteCA(ctx context.Context, k *work) (string, error) {
	backup := &corev1.Secret{}
	if err := k.Admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: api.CASecretName}, backup); err != nil {
		return "", err
	}
	if err := k.Admin.Delete(ctx, backup.DeepCopy()); err != nil {
		return "", err
	}
	if err := errors.Join(k.AwaitProblem(ctx, api.CALost), k.noteInterim(ctx)); err != nil {
		return "", err
	}
	process.Sleep(ctx, k.hold)
	return "", k.Admin.Create(ctx, anew(backup))
}

// anew returns a Secret to create, with the same content and owners.
func anew(s *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, Annotations: s.Annotations, OwnerReferences: s.OwnerReferences,
	}, Type: s.Type, Data: s.Data}
}

// rewind restores etcd to a state before Services were created, certificates were renewed, and another
// generation of the CA signed. Watches do not recover from a restored etcd by themselves, so the
// processes are restarted, as the documentation of Kubernetes requires for all controllers.
func rewind(ctx context.Context, k *work) (string, error) {
	k.once.Wait()
	backup := k.Path("etcd-backup")
	if err := k.WithoutEtcd(ctx, func(dir string) error { return os.CopyFS(backup, os.DirFS(dir)) }); err != nil {
		return "", err
	}
	k.ask("lost")
	k.once.Wait()
	before, err := k.rotating(ctx, func() error { return nil })
	if err != nil {
		return "", err
	}
	if _, err := k.settle(ctx); err != nil {
		return "", err
	}
	var all corev1.SecretList
	if err := k.Admin.List(ctx, &all, client.MatchingLabels(ours())); err != nil {
		return "", err
	}
	k.Plane.StopControllerManager()
	err = k.WithoutEtcd(ctx, func(dir string) error {
		k.sightings.begin()
		// etcd requires this mode.
		return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(backup)), os.Chmod(dir, 0o700))
	})
	if err := errors.Join(err, k.Plane.StartControllerManager(ctx)); err != nil {
		return "", err
	}
	// A signer may create these until it is restarted, because it still has Services that are gone.
	for i := range all.Items {
		if s := &all.Items[i]; strings.HasPrefix(s.Name, "new-lost-") {
			if err := client.IgnoreAlreadyExists(k.Admin.Create(ctx, anew(s))); err != nil { // the signer may have created it
				return "", err
			}
		}
	}
	k.ask("rewound")
	process.Sleep(ctx, k.hold)
	if _, err := kill(everything)(ctx, k); err != nil {
		return "", err
	}
	status, err := k.CAStatus(ctx)
	return fmt.Sprintf("%s, and after it was lost generation %d", before, status.Generation), err
}

// fillDisk makes etcd write until it ends, because its open files may have free space.
func fillDisk(ctx context.Context, k *work) (string, error) {
	if err := k.disk.Fill(); err != nil {
		return "", err
	}
	written := 0
	for deadline := time.Now().Add(time.Minute); k.Plane.PIDs()["etcd"] != 0 && time.Now().Before(deadline) && ctx.Err() == nil; written++ {
		large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}, Data: map[string]string{"x": strings.Repeat("x", 900<<10)}}
		try, cancel := context.WithTimeout(ctx, attempt/2)
		err := k.Admin.Create(try, large)
		_ = k.Admin.Delete(try, large) // an earlier attempt may have created it
		cancel()
		if err != nil {
			process.Sleep(ctx, poll)
		}
	}
	if k.Plane.PIDs()["etcd"] != 0 {
		return "", errors.New("etcd runs on a disk that is full")
	}
	process.Sleep(ctx, k.hold)
	if err := errors.Join(k.disk.Free(), k.Plane.StartEtcd(ctx)); err != nil {
		return "", err
	}
	return fmt.Sprintf("etcd ended after %d more writes of 900 KiB", written), nil
}
