package ca

import (
	"fmt"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A client that reads its bundle once goes on with the roots that were there when it was started.
// Cross-certificates serve it until it is left out: where a generation signs without one, and, with
// names that its roots do not permit, once the last root that does not has gone. Where the operator
// asks for it, both wait until no such client is left.

// clientsWithout says which pods may not hold the root of the generation; "" if none, or if nobody
// waits for them.
func (s Situation) clientsWithout(g Generation) string {
	if !s.WaitForClients {
		return ""
	}
	switch of, counted := s.Clients.Of(g.Number, pki.Fingerprint(g.Root)); {
	case !counted:
		return fmt.Sprintf("ConfigMap %s does not say yet which pods may not hold the root of %s: is the rotator running?", api.ServingStatusName, g)
	case of.Pods > 0:
		return fmt.Sprintf("%d pods of %d workloads may not hold the root of %s, as they were started before %s: %s. Restart them, or annotate them %s: %s if they read the CA bundle again",
			of.Pods, of.Workloads, g, formatTime(of.Since), of, api.AnnotationOnRotate, api.OnRotateReload)
	}
	return ""
}

// holdsRetirement reports whether the roots before the generation stay for clients that may not
// hold its root.
func (s Situation) holdsRetirement(next Generation) bool { return s.clientsWithout(next) != "" }

// holdsPromotion says which clients the newest generation would leave out if it signed; "" if none,
// or if they are not waited for any longer.
func (s Situation) holdsPromotion(state State) string {
	signing, newest := state.signing(), state.Newest()
	switch {
	case newest.Cross != nil, newest.Root.Equal(signing.Root), s.PromoteDespite == newest.Number, !s.Now.Before(newest.TrustedAt.Add(s.RefusalGrace)):
		return ""
	}
	return s.clientsWithout(newest)
}

// waitForClients says for whom a root stays that would leave the bundle otherwise.
func waitForClients(d *Decision, s Situation) {
	free, _ := tidied(*d.State, s.Now, nil)
	if !differ(free, *d.State) {
		return
	}
	d.lookAt(s.Now.Add(pollStopped)) // nobody watches the clients
	for i, g := range free.Generations {
		if i == 0 || !free.Generations[i-1].Retired {
			continue
		}
		if why := s.clientsWithout(g); why != "" && d.Waiting == "" {
			d.Waiting = fmt.Sprintf("the root of %s stays: %s", free.Generations[i-1], why)
		}
	}
}
