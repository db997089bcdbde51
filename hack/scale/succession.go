package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// succession replaces the CA of all certificates: the new one waits a second for pods, and
// its certificates are not spread over time.
func (r *run) succession(ctx context.Context) error {
	const part = "Succession of the CA"
	signer, err := r.startSigner(ctx, "--ca-soak=1s", "--ca-reissue-window=1s")
	if err != nil {
		return err
	}
	defer signer.Kill()
	rotator, err := r.Run(ctx, r.rotator, r.memory(measure.RotatorMemory))
	if err != nil {
		return err
	}
	defer rotator.Kill()
	total := r.n + 1 // that of the takeover, too
	if err := r.atRest(ctx, signer, rotator, total); err != nil {
		return err
	}
	before, err := signer.Scrape()
	if err != nil {
		return err
	}
	idle, err := rotator.Scrape()
	if err != nil {
		return err
	}
	m, err := r.Begin(ctx, map[string]*measure.Process{measure.TheSigner: signer, measure.TheRotator: rotator})
	if err != nil {
		return err
	}
	if err := r.RotateCA(ctx, api.RotateOverlap); err != nil {
		return err
	}
	if err := r.waitPhase(ctx, signer, api.PhaseReissue, api.PhaseRetire); err != nil {
		return err
	}
	promoted := time.Now()
	if err := waitSucceeded(ctx, signer, before, total, promoted); err != nil {
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
	carried, err := rotator.Scrape()
	if err != nil {
		return err
	}
	r.set(part, "from the request until the new CA signs", "s", promoted.Sub(m.Start).Seconds())
	r.set(part, "from then until all certificates and conditions are new", "s", signer.Reached.Sub(promoted).Seconds())
	r.set(part, "certificates a second", "", float64(total)/signer.Reached.Sub(promoted).Seconds())
	r.set(part, "writes a certificate, events included", "", (after.Writes-before.Writes())/float64(total))
	r.set(part, "writes a certificate: rotator", "", (carried.Writes()-idle.Writes())/float64(total))
	r.setCPU(part, "certificate", phase, measure.TheSigner, measure.TheRotator)
	r.set(part, "peak RSS of the signer", "MiB", mib(after.Peak))
	r.set(part, "bytes in etcd a certificate that this adds", "", phase.Stored/float64(total))
	if err := r.setPlaneRSS(part); err != nil {
		return err
	}
	return errors.Join(signer.Stop(), rotator.Stop())
}

// atRest waits until the signer has looked at all, and the rotator has written the bundle and,
// of every Service, that no pod uses it.
func (r *run) atRest(ctx context.Context, signer, rotator *measure.Process, total int) error {
	if err := signer.WaitReconciled(ctx, total); err != nil {
		return err
	}
	if _, err := r.waitTrust(ctx, rotator, r.bundles(), ""); err != nil {
		return err
	}
	return settled(ctx, rotator)
}

// waitSucceeded waits until the signer has issued as many certificates as there are since
// before, and has written their conditions: a certificate is two writes.
func waitSucceeded(ctx context.Context, signer *measure.Process, before process.Families, total int, promoted time.Time) error {
	written := func(m process.Families) float64 {
		return m.Sum("rest_client_requests_total", "method", http.MethodPatch) + m.Sum("rest_client_requests_total", "method", http.MethodPut)
	}
	const issued = "servingcert_certificates_issued_total"
	return signer.Wait(ctx, "certificates of the new CA", func() (time.Duration, bool) {
		now, err := signer.Scrape()
		made := written(now) - written(before)
		return measure.PollAfter(int(made), 2*total, time.Since(promoted)), err == nil && now.Sum(issued)-before.Sum(issued) >= float64(total) && made >= float64(2*total)
	})
}
