package main

import (
	"context"
	"time"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/measure/requests"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scale/consumers"
	"github.com/servingcert/servingcert/pkg/api"
)

// requestsPart has N PodCertificateRequests answered.
func (r *run) requestsPart(ctx context.Context) error {
	const part = "PodCertificateRequests"
	if err := r.MakeNamespace(ctx, api.DefaultNamespace, nil); err != nil {
		return err
	}
	a, err := requests.RunPods(ctx, requests.Config{Cluster: r.Cluster, Signer: r.signer, Workers: r.workers, Requests: r.n})
	if err != nil {
		return err
	}
	r.set(part, "bare client: answers a second", "", a.PodFloor.Rate())
	r.set(part, "signer, from its start: until all are answered", "s", a.Pods.Took.Seconds())
	r.set(part, "answers a second", "", a.Pods.Rate())
	r.set(part, "CPU of the signer a request", "ms", a.Pods.CPU.Seconds()*1000/float64(r.n))
	r.set(part, "writes a request", "", a.Pods.Writes/float64(r.n))
	r.set(part, "reads a request", "", a.Pods.Reads/float64(r.n))
	r.set(part, "peak RSS of the signer", "MiB", mib(a.Pods.Peak))
	r.set(part, "500 more at once: until the last is answered", "s", a.Burst.Seconds())
	return nil
}

// kubelet is how long a new certificate may take into a pod.
const kubelet = time.Minute

// rotatorPart has the rotator follow N pods that serve, and renews all of their certificates.
func (r *run) rotatorPart(ctx context.Context) error {
	f, err := consumers.Open(ctx, consumers.Config{Cluster: r.Cluster, Rotator: r.rotator, Workers: r.workers, Pods: r.n, PodsPerService: 10})
	if err != nil {
		return err
	}
	defer f.Kill()
	process.Step("a new leader")
	w, err := f.Start(ctx)
	if err != nil {
		return err
	}
	if err := r.setWatched("Rotator: a new leader", w, f.Process, 10); err != nil {
		return err
	}
	process.Step("a renewal of all, served at once")
	if w, err = f.Rotate(ctx, 0); err != nil {
		return err
	}
	if err := r.setWatched("Rotator: all renewed, served at once", w, f.Process, 10); err != nil {
		return err
	}
	process.Step("a renewal of all, served after %s", kubelet)
	if w, err = f.Rotate(ctx, kubelet); err != nil {
		return err
	}
	if err := r.setWatched("Rotator: all renewed, served after a minute", w, f.Process, 10); err != nil {
		return err
	}
	return f.Close()
}

// stalePart renews the certificates of N workloads that do not take them up.
func (r *run) stalePart(ctx context.Context) error {
	f, err := consumers.Open(ctx, consumers.Config{Cluster: r.Cluster, Rotator: r.rotator, Workers: r.workers, Pods: r.n, PodsPerService: 1})
	if err != nil {
		return err
	}
	defer f.Kill()
	if _, err := f.Start(ctx); err != nil {
		return err
	}
	process.Step("a renewal of all that no pod takes up")
	w, err := f.LeaveStale(ctx)
	if err != nil {
		return err
	}
	if err := r.setWatched("Rotator: all workloads stale at once", w, f.Process, 1); err != nil {
		return err
	}
	return f.Close()
}

func (r *run) setWatched(part string, w consumers.Watched, p *measure.Process, podsPerService int) error {
	r.set(part, "until every Service says so", "s", w.Took.Seconds())
	r.set(part, "dials a pod", "", w.Dials/float64(r.n))
	r.set(part, "writes a Service", "", w.Writes*float64(podsPerService)/float64(r.n))
	r.setCPU(part, "pod", w.Phase, measure.TheRotator)
	peak, err := process.PeakRSS(p.PID())
	if err != nil {
		return err
	}
	r.set(part, "peak RSS of the rotator so far", "MiB", mib(peak))
	c, err := p.Collections()
	r.set(part, "live heap of the rotator", "MiB", mib(c.Live))
	return err
}
