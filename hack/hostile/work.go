package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// work does everything that is measured until d has passed, and finishes what it began.
func (s *shop) work(ctx context.Context, d time.Duration) error {
	working, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	s.repeat(working, rowBare, pausePod, s.createConfigMap)
	s.repeat(working, rowReady, pauseNew, s.createService)
	s.repeat(working, rowPod, pausePod, s.createAndDeletePod)
	s.repeat(working, rowRenewed, max(pauseRenew, d/(mostRenewals*renewed)), func(ctx context.Context, i int) error {
		_, err := s.renewAndWait(ctx, renewedName(i%renewed))
		return err
	})
	for i := range served {
		s.repeat(working, rowServed, max(pauseServed, d/mostRenewals), func(ctx context.Context, _ int) error { return s.renewAndServe(ctx, servedName(i)) })
	}
	s.working.Go(func() {
		// Attacks on restarts need a while to begin with.
		if process.Sleep(working, d/4) {
			s.repeat(working, rowRestarted, max(pauseServed, d/mostRenewals), s.legacy.renewAndRestart)
		}
	})
	s.working.Wait()
	return ctx.Err()
}

// repeat does something again and again until ctx ends. What has begun then may take as
// long as at any other time.
func (s *shop) repeat(ctx context.Context, r row, pause time.Duration, do func(ctx context.Context, i int) error) {
	s.working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			op, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			if err := do(op, i); err != nil {
				s.failed(r, err)
			}
			cancel()
			process.Sleep(ctx, pause)
		}
	})
}

// createConfigMap is a request that servingcert has no part in: what it takes longer under
// attack is the API server's and the machine's.
func (s *shop) createConfigMap(ctx context.Context, i int) error {
	name := fmt.Sprint("bare-", i)
	start := time.Now()
	if _, err := s.configMaps().Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	s.took(rowBare, time.Since(start))
	return s.configMaps().Delete(ctx, name, metav1.DeleteOptions{})
}

func (s *shop) createService(ctx context.Context, i int) error {
	name := fmt.Sprint("new-", i)
	took, err := s.issued(ctx, name)
	if err != nil {
		return err
	}
	s.took(rowReady, took)
	return s.tenant.services().Delete(ctx, name, metav1.DeleteOptions{})
}

func (s *shop) createAndDeletePod(ctx context.Context, i int) error {
	app := renewedName(i % renewed)
	pod := podOf(fmt.Sprint("pod-", i), app, int32(s.port)) //nolint:gosec // a port
	start := time.Now()
	if err := s.createPod(ctx, pod); err != nil {
		return err
	}
	s.took(rowPod, time.Since(start))
	return s.pods().Delete(ctx, pod.Name, atOnce())
}

// renewAndWait renews a Service's certificate and returns it with the new one.
func (s *shop) renewAndWait(ctx context.Context, name string) (arrived, error) {
	if !nextSecond(ctx) {
		return arrived{}, late(ctx, "Service %s", name)
	}
	before, start := leafOf(s.services.now(name)), time.Now()
	if err := s.renew(ctx, name); err != nil {
		return arrived{}, err
	}
	svc, err := s.services.wait(ctx, name, "it has no new certificate", func(svc *corev1.Service) bool { return isReady(svc) && leafOf(svc) != before })
	if err == nil {
		s.took(rowRenewed, svc.at.Sub(start))
	}
	return svc, err
}

// renewAndServe renews a certificate, has its pods serve it at once, and waits until they
// are seen to.
func (s *shop) renewAndServe(ctx context.Context, name string) error {
	svc, err := s.renewAndWait(ctx, name)
	for err == nil {
		pair, loadErr := s.pairOf(ctx, name+"-tls")
		if loadErr != nil {
			return loadErr
		}
		for _, server := range s.servers[name] {
			server.pair.Store(pair)
		}
		// The CA may be replaced meanwhile, and with it the certificate.
		leaf, since := leafOf(svc.Service), svc.at
		svc, err = s.services.wait(ctx, name, "its new certificate is not seen served", func(svc *corev1.Service) bool { return leafOf(svc) != leaf || isServed(svc) })
		if err == nil && leafOf(svc.Service) == leaf {
			s.took(rowServed, svc.at.Sub(since))
			return nil
		}
	}
	return err
}

// succession is what became of a new generation of the CA that was asked for in a round.
type succession struct {
	took       time.Duration // 0: it does not sign
	waitingFor string
}

// rotate asks for a new generation of the CA, and waits until it signs.
func (w *world) rotate(ctx context.Context, reason string) (succession, error) {
	if err := w.Rotate(ctx, api.RotateForce, reason); err != nil {
		return succession{}, err
	}
	start := time.Now()
	for {
		// That it may end without an answer is a result.
		status, err := w.CAStatus(context.WithoutCancel(ctx))
		if err != nil {
			return succession{}, err
		}
		err = installed.Rotated(&status, api.RotateForce, reason)
		switch {
		case err == nil:
			return succession{took: time.Since(start)}, nil
		case status.Rotation.Reason == reason && status.RotationOutcome.Refused:
			return succession{}, fmt.Errorf("replace the CA: %w", err)
		case !process.Sleep(ctx, poll):
			return succession{waitingFor: status.WaitingFor}, nil
		}
	}
}
