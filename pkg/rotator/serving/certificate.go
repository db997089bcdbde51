package serving

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// maxFormer bounds how many earlier leaves of a Secret are remembered.
const maxFormer = 16

// certificate is the certificate of a Secret that its pods should serve, according to the current
// and former Ready conditions of its Services.
type certificate struct {
	leaf string // fingerprint; empty if unknown
	// named are the leaves in the Ready conditions now: leaf, and a second one while the signer
	// writes several Services.
	named []string
	// since is when the Secret got leaf, to the second.
	since time.Time
	// paths are what pods have to send with leaf (pki.LinkedBy). since is also when they changed.
	paths []string
	// corrected: paths changed while leaf stayed.
	corrected bool
	// former are the earlier leaves, the latest last.
	former []string
	// notBefore is leaf's, zero until it is seen served.
	notBefore time.Time
	// fromCondition: leaf and since were read from a Serving condition.
	fromCondition bool
}

// follow returns the certificate that should be served now. services have a part in the Secret,
// oldest first. c is the remembered one; if it is zero, as in a new leader, the Serving conditions
// take its place.
//
// A Ready condition without a leaf, such as after a failed renewal, changes nothing. Without any
// Ready condition there is no certificate. A corrected chain counts as a new certificate with the same
// leaf, unless this process does not know the one before.
func (c certificate) follow(services []*corev1.Service, now time.Time) certificate {
	next := c.followLeaf(services, now)
	for _, svc := range services {
		ready := state.ReadyOf(svc)
		if ready.Leaf == "" || ready.Leaf != next.leaf {
			continue
		}
		if c.leaf == next.leaf && len(ready.Chain) > 0 && !slices.Equal(c.paths, ready.Chain) {
			next.since, next.corrected = now.Truncate(time.Second), true
		}
		next.paths = ready.Chain
		break
	}
	return next
}

// followLeaf is follow without what pods have to send with the leaf.
func (c certificate) followLeaf(services []*corev1.Service, now time.Time) certificate {
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
		c = certificateOf(services)
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
		return c.becomes(named[0], now) // an earlier one: a backup was restored
	}
	return c
}

// certificateOf returns the certificate in the newest of the Serving conditions.
func certificateOf(services []*corev1.Service) certificate {
	var c certificate
	for _, svc := range services {
		if facts, ok := state.ServingOf(svc); ok && facts.Since.After(c.since) {
			c.leaf, c.since, c.fromCondition = facts.Leaf, facts.Since, true
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

// linked implements standard. It is about the leaf that the pods should serve.
func (c certificate) linked(a probe.Answer) bool {
	return a.Leaf != c.leaf || pki.LinkedBy(a.Links, c.paths)
}

// known returns all known leaves of the Secret, current and former.
func (c certificate) known() []string { return slices.Concat(c.named, c.former) }
