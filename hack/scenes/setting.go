package main

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/hack/installed"
)

// setting is what scenes are played in.
type setting struct {
	name     string
	replicas int           // of each process; of several webhooks one is picked for each connection
	pause    time.Duration // from the end of a process to its next start. A kubelet's grows with each end, to five minutes
	// flags follow those of install.yaml, so that within seconds a CA is replaced and something is
	// stale. Pods are on loopback here.
	flags     map[string][]string
	planeArgs []string // of kube-apiserver
	proxies   bool     // faults can be made between processes, kube-apiserver and etcd, and under etcd
	moveClock bool     // signer and rotator have a clock that can be moved
	services  int      // of all tenants, without pods
	serving   int      // Services of the first tenant whose pods serve. One more is restarted when it is renewed
	lanes     []lane   // what the tenants do meanwhile
	hold      time.Duration
}

const faultsName, attacksName = "faults", "attacks"

const (
	asked = 10 // Services that are created, and that are renewed, in each fault
	// mostRenewals is about how often a Secret is renewed at most, however long attacks go on: the
	// signer limits that.
	mostRenewals = 15
)

// quiet is the scene before all faults.
func quiet() *scene {
	s := &scene{name: "alone", what: "nothing is broken", do: kill(func(*world) []*installed.Process { return nil })}
	for n := range 10 {
		s.tenants = append(s.tenants, fmt.Sprint("tenant-", n))
	}
	return s
}

func faultSetting(short bool) setting {
	s := setting{
		name: faultsName, replicas: 2, pause: time.Second, proxies: true, services: 500, hold: 8 * time.Second,
		flags: map[string][]string{
			"signer":  {"--ca-soak=5s", "--ca-reissue-window=5s"},
			"rotator": {"--pod-cidrs=127.0.0.0/8"},
		},
	}
	if short {
		s.services, s.hold = 150, 3*time.Second
	}
	s.lanes = []lane{
		{"annotated Service until Ready", asked, 0, s.hold, (*work).createService},
		{"renewal requested until new certificate", asked, 0, s.hold, (*work).renewNext},
		{"pod created through the webhook", 3, 100 * time.Millisecond, 0, (*work).createPod},
	}
	return s
}

// attackSetting is that of attacks for a time.
func attackSetting(d time.Duration) setting {
	s := setting{
		name: attacksName, replicas: 1, pause: time.Millisecond, services: 4, serving: 6, hold: d,
		flags: map[string][]string{
			"signer":  {"--ca-soak=10s", "--ca-reissue-window=20s"},
			"rotator": {"--propagation-time=20s", "--pod-cidrs=127.0.0.0/8"},
		},
		planeArgs: []string{
			"--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200", // the defaults
			"--etcd-compaction-interval=30s", // the attacks write more than etcd keeps
		},
	}
	seldom := max(8*time.Second, d/mostRenewals)
	s.lanes = []lane{
		{"ConfigMap created (the API server alone)", 1, 250 * time.Millisecond, 0, (*work).createConfigMap},
		{"annotated Service until Ready", 1, 500 * time.Millisecond, 0, (*work).createService},
		{"renewal requested until new certificate", 1, max(3*time.Second, d/time.Duration(mostRenewals*s.services)), 0, (*work).renewNext},
		{"pod created through the webhook", 1, 250 * time.Millisecond, 0, (*work).createPod},
		{"new certificate until seen served", s.serving, seldom, 0, (*work).renewAndServe},
		{"new certificate until restarted and served", 1, seldom, d / 4, (*work).renewAndRestart}, // attacks on restarts need a while to begin with
	}
	return s
}
