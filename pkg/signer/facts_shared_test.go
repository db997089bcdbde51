package signer

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// TestFactsAreNotChanged: caches return the facts themselves, which every decision shares.
func TestFactsAreNotChanged(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		w.openShift = seldom(t, 3, "OpenShift")
		s := w.situation()
		before := *w
		before.services = nil
		for _, svc := range w.services {
			before.services = append(before.services, svc.DeepCopy())
		}
		want := before.situation()
		d := Decide(s, OwnershipOf(s))
		conditions(s, d)
		switch d.Action {
		case Create, Reissue, Replace:
			issued, err := issue.Issue(context.Background(), plainSign(), s.Authority, d.Wanted, w.now)
			require.NoError(t, err)
			content, err := d.With(s, issued)
			require.NoError(t, err)
			content.Secret(s.Key, nil)
		case Repair:
			d.Content.Patch(s.Secret)
		}
		require.Equal(t, want.Requesters, s.Requesters)
		require.Equal(t, want.Owners, s.Owners)
		if s.Secret != nil {
			want.Secret.verified, s.Secret.verified = nil, nil // which is found out once
			require.Equal(t, want.Secret, s.Secret)
		}
	})
}
