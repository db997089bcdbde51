package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/pkg/api"
)

// userA and userB are the signers whose requests the API server writes down.
const (
	userA = "signer-a"
	userB = "signer-b"
)

// perNamespace is how many Services a namespace has.
const perNamespace = 100

// signerPart issues N certificates, restarts the signer beside them, has a standby take over,
// and replaces the CA of all.
func (r *run) signerPart(ctx context.Context) error {
	if err := r.makeServices(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{{"cold issue", r.issue}, {"restart", r.restart}, {"takeover", r.takeover}, {"succession", r.succession}} {
		measure.Step("%s, %d", step.what, r.n)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func namespaceOf(i int) string { return fmt.Sprintf("shop-%03d", i/perNamespace) }

func (r *run) makeServices(ctx context.Context) error {
	if err := r.MakeNamespace(ctx, api.DefaultNamespace, nil); err != nil {
		return err
	}
	for first := 0; first < r.n; first += perNamespace {
		if err := r.MakeNamespace(ctx, namespaceOf(first), measure.OptedIn()); err != nil {
			return err
		}
	}
	return measure.Each(ctx, r.n, r.workers, func(ctx context.Context, i int) error { return r.MakeService(ctx, namespaceOf(i), i, true) })
}

// issue starts the signer, and measures from its first certificate to its last condition.
func (r *run) issue(ctx context.Context) error {
	const part = "Cold issue"
	p, err := r.startSigner(ctx)
	if err != nil {
		return err
	}
	defer p.Kill()
	const before = 1 // the CA's
	first, err := r.WaitFirst(ctx, p, "", before)
	if err != nil {
		return err
	}
	m, err := r.Begin(ctx, map[string]*measure.Process{measure.TheSigner: p})
	if err != nil {
		return err
	}
	r.set(part, "from the signer's start to its first certificate", "s", m.Start.Sub(p.Started).Seconds())
	if err := r.WaitIssued(ctx, p, measure.Issued{Before: before, N: r.n, First: first, Start: m.Start}); err != nil {
		return err
	}
	phase, err := m.End(ctx, r.n-first)
	if err != nil {
		return err
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	r.set(part, "from the first certificate to the last condition", "s", phase.Took.Seconds())
	r.set(part, "certificates a second", "", phase.Rate())
	r.set(part, "writes a certificate", "", u.Writes/float64(r.n))
	r.setCPU(part, "certificate", phase, measure.TheSigner)
	r.set(part, "peak RSS of the signer", "MiB", mib(u.Peak))
	if err := p.Stop(); err != nil {
		return err
	}
	collected, err := p.Collections()
	if err != nil {
		return err
	}
	r.set(part, "live heap of the signer", "MiB", mib(collected.Live))
	r.set(part, "bytes in etcd a certificate", "", phase.Stored/float64(phase.N))
	return r.setPlaneRSS(part)
}

// startSigner starts the signer with as much memory for each certificate as deploy/install.yaml
// requests for 10 000, and not with less than that.
func (r *run) startSigner(ctx context.Context, flags ...string) (*measure.Process, error) {
	limit := fmt.Sprintf("GOMEMLIMIT=%dMiB", max(112, 112*r.n/10_000))
	return r.Run(ctx, r.signer, []string{limit, "GODEBUG=gctrace=1"}, append(flags, "--workers", strconv.Itoa(r.workers))...)
}

// setCPU notes the CPU time of the control plane and of some processes for each of what.
func (r *run) setCPU(part, what string, phase measure.Phase, processes ...string) {
	for _, process := range append(processes, controlplane.KubeAPIServer, controlplane.Etcd) {
		r.set(part, fmt.Sprintf("CPU a %s: %s", what, process), "ms", phase.CPUEach(process))
	}
}

func (r *run) setPlaneRSS(part string) error {
	for _, process := range []string{controlplane.KubeAPIServer, controlplane.Etcd} {
		peak, err := measure.PeakRSS(r.Plane.PIDs()[process])
		if err != nil {
			return err
		}
		r.set(part, "peak RSS so far of "+process, "MiB", mib(peak))
	}
	return nil
}

// runAs starts the signer as a user whose requests the API server writes down.
func (r *run) runAs(ctx context.Context, user string) (*measure.Process, error) {
	cfg, err := r.Plane.UserConfig(user, "system:masters")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.Dir, user+".kubeconfig")
	if err := controlplane.WriteKubeconfig(file, cfg); err != nil {
		return nil, err
	}
	return r.startSigner(ctx, "--kubeconfig", file)
}

// restart starts the signer beside the certificates that are there, until it has looked at
// all of them.
func (r *run) restart(ctx context.Context) error {
	const part = "Restart"
	p, err := r.runAs(ctx, userA)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := p.WaitReconciled(ctx, r.n); err != nil {
		return err
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	r.set(part, "until every certificate was looked at", "s", u.Took.Seconds())
	r.set(part, "CPU of the signer", "s", u.CPU.Seconds())
	r.set(part, "peak RSS of the signer", "MiB", mib(u.Peak))
	requests, err := r.requestsOf(userA, 0)
	if err != nil {
		return err
	}
	r.setRequests(part, requests)
	return p.Stop()
}

func (r *run) setRequests(part string, c counted) {
	r.set(part, "requests: streamed lists", "", float64(c.streamed))
	r.set(part, "requests: lists, each page counted", "", float64(c.lists))
	r.set(part, "requests: watches without a list", "", float64(c.watches))
	r.set(part, "requests: gets", "", float64(c.gets))
	r.set(part, "requests: writes (Lease, status)", "", float64(c.writes))
}

// takeover kills the leader of two signers. The Service that is made in that moment has to
// wait for the other.
func (r *run) takeover(ctx context.Context) error {
	const part = "Takeover"
	leader, err := r.runAs(ctx, userA)
	if err != nil {
		return err
	}
	defer leader.Kill()
	if err := leader.WaitReconciled(ctx, r.n); err != nil {
		return err
	}
	standby, err := r.runAs(ctx, userB)
	if err != nil {
		return err
	}
	defer standby.Kill()
	if err := settled(ctx, standby); err != nil {
		return err
	}
	waiting, err := r.requestsOf(userB, 0)
	if err != nil {
		return err
	}
	if err := r.setStandby(part, standby, waiting); err != nil {
		return err
	}
	held, holder, err := r.watchLease(ctx)
	if err != nil {
		return err
	}
	defer held.Stop()
	secrets, err := r.Client.CoreV1().Secrets(namespaceOf(0)).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", measure.Name(r.n)+"-tls").String()})
	if err != nil {
		return err
	}
	defer secrets.Stop()
	killed := time.Now()
	leader.Kill()
	if err := r.MakeService(ctx, namespaceOf(0), r.n, true); err != nil {
		return err
	}
	led, err := nextHolder(ctx, held, holder)
	if err != nil {
		return err
	}
	if err := next(ctx, secrets); err != nil {
		return err
	}
	worked := time.Now()
	if err := standby.WaitReconciled(ctx, r.n+1); err != nil {
		return err
	}
	r.set(part, "from the leader's kill -9 to the other's Lease", "s", led.Sub(killed).Seconds())
	r.set(part, "from its Lease to its first certificate", "s", worked.Sub(led).Seconds())
	r.set(part, "from its Lease until every certificate was looked at", "s", standby.Reached.Sub(led).Seconds())
	after, err := r.requestsOf(userB, waiting.events)
	if err != nil {
		return err
	}
	r.setRequests(part, after)
	peak, err := measure.PeakRSS(standby.PID())
	if err != nil {
		return err
	}
	r.set(part, "peak RSS afterwards", "MiB", mib(peak))
	return standby.Stop()
}

func (r *run) setStandby(part string, standby *measure.Process, c counted) error {
	peak, err := measure.PeakRSS(standby.PID())
	if err != nil {
		return err
	}
	r.set(part, "peak RSS of the standby while it waits", "MiB", mib(peak))
	r.set(part, "its requests while it waits: lists, streamed or not", "", float64(c.streamed+c.lists))
	return nil
}

// settled waits until a process has used less than a twentieth of a core for two seconds.
func settled(ctx context.Context, p *measure.Process) error {
	var last time.Duration
	return p.Wait(ctx, "rest", func() (time.Duration, bool) {
		cpu, err := measure.CPUTime(p.PID())
		done := err == nil && last > 0 && cpu-last < 100*time.Millisecond
		last = cpu
		return 2 * time.Second, done
	})
}

// watchLease watches the signer's Lease, and returns who holds it.
func (r *run) watchLease(ctx context.Context) (w watch.Interface, holder string, err error) {
	const name = "servingcert-signer"
	leases := r.Client.CoordinationV1().Leases(api.DefaultNamespace)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	w, err = leases.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: lease.ResourceVersion})
	return w, ptr.Deref(lease.Spec.HolderIdentity, ""), err
}

// nextHolder waits until somebody else than the first holds the Lease, and returns when that
// was seen.
func nextHolder(ctx context.Context, w watch.Interface, first string) (time.Time, error) {
	for {
		select {
		case e := <-w.ResultChan():
			lease, ok := e.Object.(*coordinationv1.Lease)
			if !ok {
				return time.Time{}, errors.New("the watch of the Lease ended")
			}
			if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" && holder != first {
				return time.Now(), nil
			}
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// next waits for the first event of a watch of Secrets.
func next(ctx context.Context, w watch.Interface) error {
	select {
	case e := <-w.ResultChan():
		if _, ok := e.Object.(*corev1.Secret); !ok {
			return errors.New("the watch of the Secret ended")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// succession replaces the CA of all certificates: the new one waits a second for pods, and
// its certificates are not spread over time.
func (r *run) succession(ctx context.Context) error {
	const part = "Succession of the CA"
	signer, err := r.startSigner(ctx, "--ca-soak=1s", "--ca-reissue-window=1s")
	if err != nil {
		return err
	}
	defer signer.Kill()
	rotator, err := r.RunRotator(ctx, r.rotator)
	if err != nil {
		return err
	}
	defer rotator.Kill()
	total := r.n + 1 // that of the takeover, too
	if err := signer.WaitReconciled(ctx, total); err != nil {
		return err
	}
	if _, err := r.waitTrust(ctx, rotator, r.bundles(), ""); err != nil {
		return err
	}
	before, err := signer.Scrape()
	if err != nil {
		return err
	}
	m, err := r.Begin(ctx, map[string]*measure.Process{measure.TheSigner: signer, measure.TheRotator: rotator})
	if err != nil {
		return err
	}
	if err := r.rotateCA(ctx); err != nil {
		return err
	}
	if err := r.waitPhase(ctx, signer, api.PhaseReissue, api.PhaseRetire); err != nil {
		return err
	}
	promoted := time.Now()
	// A certificate is two writes: its Secret and its condition.
	patched := before.Sum("rest_client_requests_total", "method", http.MethodPatch)
	put := before.Sum("rest_client_requests_total", "method", http.MethodPut)
	err = signer.Wait(ctx, "certificates of the new CA", func() (time.Duration, bool) {
		now, err := signer.Scrape()
		made := now.Sum("rest_client_requests_total", "method", http.MethodPatch) + now.Sum("rest_client_requests_total", "method", http.MethodPut) - patched - put
		done := now.Sum("servingcert_certificates_issued_total") - before.Sum("servingcert_certificates_issued_total")
		return measure.PollAfter(int(made), 2*total, time.Since(promoted)), err == nil && done >= float64(total) && made >= float64(2*total)
	})
	if err != nil {
		return err
	}
	phase, err := m.End(ctx, total)
	if err != nil {
		return err
	}
	after, err := signer.Usage()
	if err != nil {
		return err
	}
	r.set(part, "from the request until the new CA signs", "s", promoted.Sub(m.Start).Seconds())
	r.set(part, "from then until all certificates and conditions are new", "s", signer.Reached.Sub(promoted).Seconds())
	r.set(part, "certificates a second", "", float64(total)/signer.Reached.Sub(promoted).Seconds())
	r.set(part, "writes a certificate, events included", "", (after.Writes-before.Writes())/float64(total))
	r.setCPU(part, "certificate", phase, measure.TheSigner, measure.TheRotator)
	r.set(part, "peak RSS of the signer", "MiB", mib(after.Peak))
	r.set(part, "bytes in etcd a certificate that this adds", "", phase.Stored/float64(total))
	if err := r.setPlaneRSS(part); err != nil {
		return err
	}
	return errors.Join(signer.Stop(), rotator.Stop())
}

// bundles is how many namespaces get a bundle.
func (r *run) bundles() int { return (r.n + perNamespace - 1) / perNamespace }

func mib(bytes float64) float64 { return bytes / (1 << 20) }
