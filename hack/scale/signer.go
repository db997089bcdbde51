package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
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
		process.Step("%s, %d", step.what, r.n)
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
	cold, err := r.IssueCold(ctx, p, measure.Issued{Before: 1, N: r.n}) // the CA's
	if err != nil {
		return err
	}
	phase, u := cold.Phase, cold.Total
	r.set(part, "from the signer's start to its first certificate", "s", cold.Started.Seconds())
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

// startSigner starts the signer, with the memory of deploy/install.yaml for each 10 000
// certificates.
func (r *run) startSigner(ctx context.Context, flags ...string) (*measure.Process, error) {
	return r.Run(ctx, r.signer, append(r.memory(measure.SignerMemory), measure.SignerGOGC), append(flags, "--workers", strconv.Itoa(r.workers))...)
}

// memory is the environment of a process that is given so many MiB for 10 000 Services, and not
// less for fewer.
func (r *run) memory(mib int) []string {
	return measure.Limited(max(mib, mib*r.n/10_000))
}

// setCPU notes the CPU time of the control plane and of some processes for each of what.
func (r *run) setCPU(part, what string, phase measure.Phase, processes ...string) {
	for _, name := range append(processes, controlplane.KubeAPIServer, controlplane.Etcd) {
		r.set(part, fmt.Sprintf("CPU a %s: %s", what, name), "ms", phase.CPUEach(name))
	}
}

func (r *run) setPlaneRSS(part string) error {
	for _, name := range []string{controlplane.KubeAPIServer, controlplane.Etcd} {
		peak, err := process.PeakRSS(r.Plane.PIDs()[name])
		if err != nil {
			return err
		}
		r.set(part, "peak RSS so far of "+name, "MiB", mib(peak))
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

// bundles is how many namespaces get a bundle.
func (r *run) bundles() int { return (r.n + perNamespace - 1) / perNamespace }

func mib(bytes float64) float64 { return bytes / (1 << 20) }
