package signer

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// A format of the Secret beside the pair is created, restored when it is changed or
// removed, and otherwise no reason to write.
func TestContentBesideThePair(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	s := newScene(ca, nil, web).situation()
	d := Decision{Ownership: Ownership{Participants: s.Requesters, owners: ownerReferences(nil, s.Requesters), Asked: api.Wanted{Formats: formats.Of(&formats.Combined)}}}
	content := withIssued(t, s, d, issued)
	file := combined(issued.CertPEM, issued.KeyPEM)
	secret := created(content.Secret(s.Key, nil))
	require.Equal(t, map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM, api.CombinedKey: file}, secret.Data)

	s.Secret = FactsOf(secret, api.DefaultInstance)
	kept := contentOf(s, d, nil) // with the existing pair
	assert.False(t, kept.differs(s.Secret))

	for name, c := range map[string]struct {
		change  func(data map[string][]byte)
		changed []string
	}{
		"changed":          {func(data map[string][]byte) { data[api.CombinedKey] = []byte("another") }, []string{api.CombinedKey}},
		"emptied":          {func(data map[string][]byte) { data[api.CombinedKey] = nil }, []string{api.CombinedKey}},
		"removed":          {func(data map[string][]byte) { delete(data, api.CombinedKey) }, []string{api.CombinedKey}},
		"one more":         {func(data map[string][]byte) { data["b"] = []byte("x") }, []string{"b"}},
		"another in place": {func(data map[string][]byte) { delete(data, api.CombinedKey); data["b"] = []byte("x") }, []string{"b", api.CombinedKey}},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := secret.DeepCopy()
			c.change(damaged.Data)
			facts := FactsOf(damaged, api.DefaultInstance)
			require.True(t, kept.differs(facts))
			assert.Equal(t, c.changed, kept.changedKeys(facts))
			written := kept
			if written.NeedsPair(facts) {
				var err error
				written, err = written.WithPair(damaged)
				require.NoError(t, err)
			}
			healed := patched(t, damaged, written.Patch(facts))
			assert.Equal(t, secret.Data, healed.Data, "and the pair stays")
			assert.False(t, kept.differs(FactsOf(healed, api.DefaultInstance)))
		})
	}
}

// Each annotation of the signer is written or removed, and those of others stay.
func TestContentAnnotations(t *testing.T) {
	ca, web := testCA(t), service("web")
	content := Content{Labels: map[string]string{api.LabelManagedBy: "servingcert"}, Annotations: map[string]string{"wanted": "yes", "unwanted": ""}}
	secret := managed(issueBy(t, ca, wantedBy(web), epoch))
	for name, c := range map[string]struct {
		have, after map[string]string
		writes      bool
	}{
		"none":              {nil, map[string]string{"wanted": "yes"}, true},
		"as they should be": {map[string]string{"wanted": "yes", "team": "shop"}, map[string]string{"wanted": "yes", "team": "shop"}, false},
		"another value":     {map[string]string{"wanted": "no"}, map[string]string{"wanted": "yes"}, true},
		"one to be removed": {map[string]string{"wanted": "yes", "unwanted": "x", "team": "shop"}, map[string]string{"wanted": "yes", "team": "shop"}, true},
		"even if empty":     {map[string]string{"wanted": "yes", "unwanted": ""}, map[string]string{"wanted": "yes"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := secret.DeepCopy()
			before.Annotations = c.have
			facts := FactsOf(before, api.DefaultInstance)
			facts.Annotations = c.have // as if contentOf returned all of them
			assert.Equal(t, c.writes, content.differs(facts))
			assert.Equal(t, c.after, patched(t, before, content.Patch(facts)).Annotations)
			assert.Equal(t, c.after, content.Secret(types.NamespacedName{}, before).Annotations)
		})
	}
}

// A replaced Secret keeps the labels of others.
func TestContentKeepsLabels(t *testing.T) {
	content := Content{Labels: map[string]string{api.LabelManagedBy: "servingcert"}}
	replaced := managed(issue.Issued{})
	replaced.Labels = map[string]string{"team": "shop", api.LabelManagedBy: "another"}
	before := maps.Clone(replaced.Labels)
	assert.Equal(t, map[string]string{"team": "shop", api.LabelManagedBy: "servingcert"}, content.Secret(types.NamespacedName{}, replaced).Labels)
	assert.Equal(t, before, replaced.Labels)
}
