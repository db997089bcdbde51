package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// bundlesPart has the bundle written into N namespaces, and changed there by a succession.
func (r *run) bundlesPart(ctx context.Context) error {
	const part = "Trust bundle"
	if err := r.MakeNamespace(ctx, api.DefaultNamespace, nil); err != nil {
		return err
	}
	err := measure.Each(ctx, r.n, r.workers, func(ctx context.Context, i int) error {
		return r.MakeNamespace(ctx, fmt.Sprintf("tenant-%05d", i), measure.OptedIn())
	})
	if err != nil {
		return err
	}
	signer, err := r.RunSigner(ctx, r.signer, r.workers, "--ca-soak=1s")
	if err != nil {
		return err
	}
	defer signer.Kill()
	if err := r.waitPhase(ctx, signer, api.PhaseStable); err != nil {
		return err
	}
	rotator, err := r.Run(ctx, r.rotator, r.memory(measure.TrustMemory), "--controllers=trust")
	if err != nil {
		return err
	}
	defer rotator.Kill()
	process.Step("the first bundle of %d namespaces", r.n)
	hash, err := r.measureBundles(ctx, part, "first", signer, rotator, "")
	if err != nil {
		return err
	}
	process.Step("their next bundle")
	if err := r.RotateCA(ctx, api.RotateOverlap); err != nil {
		return err
	}
	if _, err := r.measureBundles(ctx, part, "changed", signer, rotator, hash); err != nil {
		return err
	}
	peak, err := process.PeakRSS(rotator.PID())
	if err != nil {
		return err
	}
	r.set(part, "peak RSS of the rotator", "MiB", mib(peak))
	if err := r.setPlaneRSS(part); err != nil {
		return err
	}
	return errors.Join(signer.Stop(), rotator.Stop())
}

// measureBundles measures until all namespaces hold another bundle than the one before.
func (r *run) measureBundles(ctx context.Context, part, which string, signer, rotator *measure.Process, before string) (hash string, err error) {
	written := 0.0
	if m, err := rotator.Scrape(); err == nil { // it may not answer yet
		written = m.Writes()
	}
	m, err := r.Begin(ctx, map[string]*measure.Process{measure.TheSigner: signer, measure.TheRotator: rotator})
	if err != nil {
		return "", err
	}
	if hash, err = r.waitTrust(ctx, rotator, r.n, before); err != nil {
		return "", err
	}
	phase, err := m.End(ctx, r.n)
	if err != nil {
		return "", err
	}
	u, err := rotator.Usage()
	if err != nil {
		return "", err
	}
	r.set(part, which+": until all hold it, as the trust status says", "s", phase.Took.Seconds())
	r.set(part, which+": writes of the rotator a ConfigMap", "", (u.Writes-written)/float64(r.n))
	r.setCPU(part, "ConfigMap, "+which, phase, measure.TheRotator)
	r.set(part, which+": bytes in etcd a ConfigMap", "", phase.Stored/float64(r.n))
	return hash, nil
}

// waitTrust waits until the trust status says that at least n targets, and all that there are, hold
// another bundle than the one before, and returns its hash. Where the API server has
// ClusterTrustBundles, one of them is a target too.
func (r *run) waitTrust(ctx context.Context, rotator *measure.Process, n int, before string) (hash string, err error) {
	err = rotator.Wait(ctx, fmt.Sprintf("%d targets that hold the bundle", n), func() (time.Duration, bool) {
		const pause = 100 * time.Millisecond
		m, err := r.Client.CoreV1().ConfigMaps(api.DefaultNamespace).Get(ctx, api.TrustStatusName, metav1.GetOptions{})
		if err != nil {
			return pause, false
		}
		s, err := api.ParseTrustStatus(m.Data)
		hash = s.BundleHash
		return pause, err == nil && hash != "" && hash != before && s.Targets >= n && s.Holding == s.Targets
	})
	return hash, err
}

// waitPhase waits until the CA is in one of the phases.
func (r *run) waitPhase(ctx context.Context, signer *measure.Process, phases ...string) error {
	return signer.Wait(ctx, "CA in phase "+phases[0], func() (time.Duration, bool) {
		m, err := r.Client.CoreV1().ConfigMaps(api.DefaultNamespace).Get(ctx, api.CAStatusName, metav1.GetOptions{})
		return 50 * time.Millisecond, err == nil && slices.Contains(phases, m.Data[api.CAPhase])
	})
}
