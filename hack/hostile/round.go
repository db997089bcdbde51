package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// result is what was measured in a round.
type result struct {
	rows       [rows]samples
	succession succession
	processes  []processUsage
	others     []processUsage // who else used the machine
	attacks    []*attacker
}

// processUsage is what a process used in a round.
type processUsage struct {
	name     string
	limit    float64 // bytes; 0: none
	restarts []string
	process.Usage
}

// round has a new tenant work for d, while the attacks run if there are any. A new
// generation of the CA is asked for when a twelfth of the time is over.
func (w *world) round(ctx context.Context, namespace string, d time.Duration, attacks []attack) (*result, error) {
	t, err := w.newTenant(ctx, namespace)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, t)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return nil, err
	}
	var evil *tenant
	if len(attacks) > 0 {
		if evil, err = w.newEvil(ctx); err != nil {
			return nil, err
		}
	}
	for _, p := range w.Processes {
		if err := p.Reset(); err != nil {
			return nil, err
		}
	}
	before := w.others()
	attacking, stopAttacks := context.WithCancel(ctx)
	defer stopAttacks()
	r := &result{}
	finish := launch(attacking, attacks, evil, w.webhook, w.ports())
	rotated := make(chan error, 1)
	go func() {
		var err error
		if process.Sleep(attacking, d/12) {
			r.succession, err = w.rotate(attacking, "the round of "+namespace)
		}
		rotated <- err
	}()
	workErr := s.work(ctx, d)
	stopAttacks()
	r.attacks = finish()
	for _, a := range r.attacks {
		if a.refused > 0 {
			process.Step("attack %s: %d of %d refused, the last: %.200q", a.name, a.refused, a.sent, a.last)
		}
	}
	if err := errors.Join(workErr, <-rotated); err != nil {
		return nil, err
	}
	r.rows = s.row
	for _, p := range w.Processes {
		r.processes = append(r.processes, processUsage{p.Name(), float64(p.Limit), p.Ends(), p.Used()})
	}
	for i, after := range w.others() {
		after.CPU -= before[i].CPU
		r.others = append(r.others, after)
	}
	if len(attacks) == 0 {
		return r, w.remove(ctx, t)
	}
	return r, nil
}

// others returns the CPU time of the control plane and of this program, which makes all
// requests and serves what is in pods.
func (w *world) others() []processUsage {
	var out []processUsage
	pids := w.Plane.PIDs()
	for _, name := range []string{"kube-apiserver", "etcd", "kube-controller-manager"} {
		out = append(out, used(name, pids[name]))
	}
	return append(out, used("hostile itself", os.Getpid()))
}

func used(name string, pid int) processUsage {
	cpu, _ := process.CPUTime(pid) // 0 of one that has ended
	return processUsage{name: name, Usage: process.Usage{CPU: cpu}}
}
