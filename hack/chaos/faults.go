package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/chaos/world"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// breakage is one fault.
type breakage struct {
	name, what string
	// refuses says that creating a pod may be refused at first: whoever creates pods
	// tries again.
	refuses bool
	root    bool // it takes root
	alike   bool // a short run leaves it out: another fault is like it
	clock   bool // so too: it takes programs that are compiled anew, with all that they import
	rewinds bool // the cluster forgets what it knew
	// do breaks something, holds it for a time, and mends it. It returns what else there
	// is to say.
	do func(ctx context.Context, w *world.World, work *world.Work, hold time.Duration) (string, error)
}

// breakages are the faults, in their order: first those that end processes of ours, so that
// the ones that are there afterwards live through all the others.
func breakages() []breakage {
	return []breakage{
		{name: "kill-signer", what: "kill -9 of the leading signer while a new CA is introduced", do: killSigner},
		{name: "kill-rotator", what: "kill -9 of the leading rotator", alike: true, do: killLeader("rotator")},
		{name: "kill-trust", what: "kill -9 of the leading rotator of the bundle", alike: true, do: killLeader("trust")},
		{name: "kill-webhook", what: "kill -9 of one of two webhooks", refuses: true, do: killWebhook},
		{name: "kill-all", what: "kill -9 of all six processes", refuses: true, do: killAll},
		{name: "etcd-rewound", what: "etcd put back to a copy from before a new CA, then all controllers restarted", refuses: true, rewinds: true, do: rewind},
		{name: "apiserver", what: "kube-apiserver killed, and started again", refuses: true, do: restartAPIServer},
		{name: "etcd", what: "etcd killed, and started again", alike: true, do: restartEtcd},
		{name: "etcd-slow", what: "etcd gets each burst of writes 50 to 200 ms late", do: slowEtcd},
		{name: "api-errors", what: "20 % of the processes' requests fail while all certificates are replaced by a new CA", do: failRequests},
		{name: "clock-ahead", what: "clocks of signers and rotators an hour ahead", clock: true, do: moveClock(time.Hour)},
		{name: "clock-behind", what: "the same an hour behind", clock: true, do: moveClock(-time.Hour)},
		{name: "ca-deleted", what: "Secret servingcert-ca deleted, and restored from a backup", do: deleteCA},
		{name: "disk-full", what: "disk full under etcd, then etcd started again", root: true, do: fillDisk},
	}
}

func killSigner(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	const reason = "chaos: a signer is killed meanwhile"
	if err := w.Rotate(ctx, api.RotateForce, reason); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(hold); time.Now().Before(deadline); {
		status, err := w.CAStatus(ctx)
		if err != nil {
			return "", err
		}
		if status.Phase == api.PhaseWait {
			break
		}
		process.Sleep(ctx, 50*time.Millisecond)
	}
	if _, err := killLeader("signer")(ctx, w, nil, hold); err != nil {
		return "", err
	}
	if err := w.AwaitRotation(ctx, reason); err != nil {
		return "", err
	}
	status, err := w.CAStatus(ctx)
	return fmt.Sprintf("generation %d signs", status.Generation), err
}

func killLeader(kind string) func(context.Context, *world.World, *world.Work, time.Duration) (string, error) {
	return func(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
		p, err := w.Leader(ctx, kind)
		if err != nil {
			return "", err
		}
		if err := p.Crash(); err != nil {
			return "", err
		}
		start := time.Now()
		process.Sleep(ctx, hold)
		for ctx.Err() == nil {
			if _, err := w.Leader(ctx, kind); err == nil {
				break
			}
			process.Sleep(ctx, 100*time.Millisecond)
		}
		return fmt.Sprintf("another leads after %.0f s at most", time.Since(start).Seconds()), ctx.Err()
	}
}

func killWebhook(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	err := w.Of("webhook")[0].Crash()
	process.Sleep(ctx, hold)
	return "", err
}

func killAll(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	var errs []error
	for _, p := range w.Processes {
		errs = append(errs, p.Crash())
	}
	process.Sleep(ctx, hold)
	return "", errors.Join(errs...)
}

func restartAPIServer(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	w.Plane.StopAPIServer()
	process.Sleep(ctx, hold)
	return "", w.Plane.StartAPIServer(ctx)
}

func restartEtcd(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	w.Plane.StopEtcd()
	process.Sleep(ctx, hold)
	return "", w.Plane.StartEtcd(ctx)
}

func slowEtcd(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	w.Etcd.SetDelay(50*time.Millisecond, 200*time.Millisecond)
	defer w.Etcd.SetDelay(0, 0)
	process.Sleep(ctx, 2*hold)
	return "", nil
}

// failRequests has all certificates replaced meanwhile, so that there is something to fail.
func failRequests(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	const reason = "chaos: requests fail meanwhile"
	if err := w.Rotate(ctx, api.RotateForce, reason); err != nil {
		return "", err
	}
	before := w.APIServer.Count()
	w.APIServer.SetShare(0.2)
	process.Sleep(ctx, 3*hold)
	w.APIServer.SetShare(0)
	var said []string
	for answer, n := range w.APIServer.Count() {
		said = append(said, fmt.Sprintf("%s %d", answer, n-before[answer]))
	}
	slices.Sort(said)
	if err := w.AwaitRotation(ctx, reason); err != nil {
		return "", err
	}
	status, err := w.CAStatus(ctx)
	return fmt.Sprintf("generation %d signs; requests: %s", status.Generation, strings.Join(said, ", ")), err
}

func moveClock(ahead time.Duration) func(context.Context, *world.World, *world.Work, time.Duration) (string, error) {
	return func(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
		if err := w.Clock.Set(ahead); err != nil {
			return "", err
		}
		process.Sleep(ctx, 2*hold)
		return "", w.Clock.Set(0)
	}
}

func deleteCA(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	secrets := w.Clientset.CoreV1().Secrets(api.DefaultNamespace)
	backup, err := secrets.Get(ctx, api.CASecretName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if err := secrets.Delete(ctx, backup.Name, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	if err := errors.Join(w.AwaitProblem(ctx, api.CALost), w.NoteInterim(ctx)); err != nil {
		return "", err
	}
	process.Sleep(ctx, hold)
	restored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: backup.Name, Labels: backup.Labels, Annotations: backup.Annotations}, Type: backup.Type, Data: backup.Data}
	_, err = secrets.Create(ctx, restored, metav1.CreateOptions{})
	return "the status said " + api.CALost, err
}

// rewind puts the cluster back to before Services were created, certificates renewed, and
// another generation of the CA signed. What a backup of etcd does to those who watch is not
// undone by itself, so the processes are restarted, as Kubernetes says of all controllers.
func rewind(ctx context.Context, w *world.World, work *world.Work, hold time.Duration) (string, error) {
	work.Wait()
	copied, err := w.Backup(ctx)
	if err != nil {
		return "", err
	}
	lost := w.StartWork(ctx, "lost", hold)
	lost.Wait()
	const reason = "chaos: etcd is put back afterwards"
	if err := w.Rotate(ctx, api.RotateForce, reason); err != nil {
		return "", err
	}
	if err := w.AwaitRotation(ctx, reason); err != nil {
		return "", err
	}
	if _, err := w.Settle(ctx, lost); err != nil {
		return "", err
	}
	created, renewed, _ := lost.End()
	before, err := w.CAStatus(ctx)
	if err != nil {
		return "", err
	}
	stale, err := w.Secrets(ctx, lost)
	if err != nil {
		return "", err
	}
	work.Forget()
	if err := w.Restore(ctx, copied); err != nil {
		return "", err
	}
	// A signer may do this until it is restarted: it knows Services that are gone.
	if err := w.PutBack(ctx, stale); err != nil {
		return "", err
	}
	w.Ask(work, "rewound", hold)
	process.Sleep(ctx, hold)
	for _, p := range w.Processes {
		if err := p.Crash(); err != nil {
			return "", err
		}
	}
	after, err := w.CAStatus(ctx)
	return fmt.Sprintf("%d Services, %d renewals and generation %d of the CA were lost; generation %d signs", created, renewed, before.Generation, after.Generation), err
}

// fillDisk fills the disk and has etcd write until it ends: it may have room in the files
// that it has open.
func fillDisk(ctx context.Context, w *world.World, _ *world.Work, hold time.Duration) (string, error) {
	if err := w.Disk.Fill(); err != nil {
		return "", err
	}
	configMaps := w.Clientset.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"x": strings.Repeat("x", 900<<10)}}
	written := 0
	for deadline := time.Now().Add(time.Minute); w.Plane.PIDs()["etcd"] != 0 && time.Now().Before(deadline) && ctx.Err() == nil; written++ {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := configMaps.Create(try, large, metav1.CreateOptions{})
		_ = configMaps.Delete(try, large.Name, metav1.DeleteOptions{}) // it may be there from before
		cancel()
		if err != nil {
			process.Sleep(ctx, 100*time.Millisecond)
		}
	}
	if w.Plane.PIDs()["etcd"] != 0 {
		return "", errors.New("etcd runs on a disk that is full")
	}
	process.Sleep(ctx, hold)
	if err := w.Disk.Free(); err != nil {
		return "", err
	}
	if err := w.Plane.StartEtcd(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("etcd ended after %d more writes of 900 KiB", written), nil
}
