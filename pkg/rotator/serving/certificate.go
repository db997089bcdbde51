package serving

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// maxFormer bounds how many earlier leaves of a Secret are remembered.
const maxFormer = 16

// certificate is what pods are to serve from a Secret, by what the Ready conditions
// of its Services say, and said before.
type certificate struct {
	leaf string // fingerprint; empty: none is known
	// named are the leaves that conditions name now: leaf, and beside it another
	// as long as the signer is between its writes to several Services.
	named []string
	// since is when leaf became what is to be served, to the second.
	since time.Time
	// former are leaves that it was before, the latest last.
	former []string
	// notBefore is leaf's, zero until it is seen served.
	notBefore time.Time
	// recalled: leaf and since are from a Serving condition.
	recalled bool
}

// follow returns what is to be served now. services have a part in the Secret,
// oldest first. c is what is remembered. It is zero in a process that has just
// begun to lead, which goes on with what the Serving conditions say.
//
// A Ready condition that names no leaf, such as one whose renewal failed, changes
// nothing. Without any Ready condition, there is nothing to be served.
func (c certificate) follow(services []*corev1.Service, now time.Time) certificate {
	var named []string
	ready := false
	for _, svc := range services {
		ready = ready || api.Condition(svc, api.ConditionReady) != nil
		if leaf, ok := state.LeafOf(svc); ok && !slices.Contains(named, leaf) {
			named = append(named, leaf)
		}
	}
	if !ready {
		return certificate{}
	}
	if c.leaf == "" {
		c = recalled(services)
	}
	c.named = named
	if len(named) == 0 {
		if c.leaf != "" {
			c.named = []string{c.leaf}
		}
		return c
	}
	isNew := func(leaf string) bool { return leaf != c.leaf && !slices.Contains(c.former, leaf) }
	switch i := slices.IndexFunc(named, isNew); {
	case i >= 0:
		return c.becomes(named[i], now)
	case !slices.Contains(named, c.leaf):
		return c.becomes(named[0], now) // one from before: a backup was restored
	}
	return c
}

// recalled returns what the newest of the Serving conditions says.
func recalled(services []*corev1.Service) certificate {
	var c certificate
	for _, svc := range services {
		if facts, ok := state.ServingOf(svc); ok && facts.Since.After(c.since) {
			c.leaf, c.since, c.recalled = facts.Leaf, facts.Since, true
		}
	}
	return c
}

func (c certificate) becomes(leaf string, now time.Time) certificate {
	former := slices.DeleteFunc(slices.Clone(c.former), func(f string) bool { return f == leaf })
	if c.leaf != "" {
		former = append(former, c.leaf)
	}
	return certificate{
		leaf: leaf, named: c.named, since: now.Truncate(time.Second),
		former: former[max(0, len(former)-maxFormer):],
	}
}

// known returns the leaves that the Secret is known to hold or to have held.
func (c certificate) known() []string { return slices.Concat(c.named, c.former) }
