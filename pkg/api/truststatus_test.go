package api_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

// drawnTrustTarget draws a target like the rotator's: cluster-scoped or namespaced,
// with any message.
func drawnTrustTarget(t *rapid.T) api.TrustTarget {
	name := rapid.OneOf(rapid.StringMatching(`[a-z0-9]([-a-z0-9.:]{0,20}[a-z0-9])?`), rapid.Just(api.TrustAllOfKind))
	return api.TrustTarget{
		Kind:      rapid.SampledFrom([]string{"ConfigMap", "ClusterTrustBundle", "MutatingWebhookConfiguration"}).Draw(t, "kind"),
		Namespace: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?`)).Draw(t, "namespace"),
		Name:      name.Draw(t, "name"),
		Reason:    rapid.StringMatching(`[A-Z][A-Za-z]{0,10}`).Draw(t, "reason"),
		Message:   rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z:/" \n]{0,300}`)).Draw(t, "message"),
	}
}

func drawnTrustStatus(t *rapid.T) api.TrustStatus {
	count := rapid.IntRange(0, 1_000_000)
	return api.TrustStatus{
		BundleHash: rapid.StringMatching(`([0-9a-f]{64})?`).Draw(t, "hash"),
		Targets:    count.Draw(t, "targets"), Holding: count.Draw(t, "holding"), Pending: count.Draw(t, "pending"), Refusing: count.Draw(t, "refusing"),
		NotHolding: rapid.SliceOfN(rapid.Custom(drawnTrustTarget), 0, api.TrustMaxListed+5).Draw(t, "not holding"),
		Unlisted:   rapid.IntRange(0, 9).Draw(t, "unlisted"),
		Problem:    rapid.String().Draw(t, "problem"),
		Since:      time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "since"), 0).UTC(),
		Late:       count.Draw(t, "late"), Grace: count.Draw(t, "grace"),
		Namespaces: rapid.String().Draw(t, "namespaces"),
	}
}

// onTheWire is the message as a line can carry it.
func onTheWire(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if runes := []rune(message); len(runes) > api.TrustMaxMessage {
		message = string(runes[:api.TrustMaxMessage]) + "…"
	}
	return message
}

// A written status is read back: all of it, or, beyond the bounds, the number of
// omitted targets.
func TestTrustStatusReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawnTrustStatus(t)
		data := s.Data()
		got, err := api.ParseTrustStatus(data)
		require.NoError(t, err)

		want := s
		if beyond := len(s.NotHolding) - api.TrustMaxListed; beyond > 0 {
			want.NotHolding, want.Unlisted = s.NotHolding[:api.TrustMaxListed], s.Unlisted+beyond
		}
		want.NotHolding = append([]api.TrustTarget(nil), want.NotHolding...)
		for i := range want.NotHolding {
			want.NotHolding[i].Message = onTheWire(want.NotHolding[i].Message)
		}
		assert.Equal(t, want, got)
		assert.Equal(t, data, got.Data())
	})
}

// For any content of the ConfigMap, no line is lost to a person, and a count that cannot
// be read is an error.
func TestTrustStatusOfAnything(t *testing.T) {
	keys := []string{api.TrustTargets, api.TrustHolding, api.TrustPending, api.TrustRefusing, api.TrustLate, api.TrustGrace}
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.MapOf(rapid.SampledFrom(append(keys, api.TrustBundleHash, api.TrustNotHolding, api.TrustProblem)),
			rapid.OneOf(rapid.String(), rapid.StringMatching(`-?[0-9]{1,3}`), rapid.StringMatching(`[A-Za-z:/ \n]{0,40}`))).Draw(t, "data")
		s, err := api.ParseTrustStatus(data)
		for _, key := range keys {
			_, there := data[key]
			older := !there && (key == api.TrustLate || key == api.TrustGrace)
			if n, bad := strconv.Atoi(data[key]); (bad != nil || n < 0) && !older {
				assert.ErrorContains(t, err, "key "+key+": ")
			} else if err != nil {
				assert.NotContains(t, err.Error(), "key "+key+": ")
			}
		}
		lines := strings.Split(data[api.TrustNotHolding], "\n")
		shown := strings.Split(strings.Join(s.NotHoldingLines(), "\n"), "\n")
		require.Len(t, shown, len(lines))
		for i := range lines {
			assert.Equal(t, onTheWire(lines[i]), onTheWire(shown[i]))
		}
		again, err := api.ParseTrustStatus(s.Data())
		require.NoError(t, err)
		assert.Equal(t, s.Data(), again.Data())
	})
}

// The status of a rotator older than the grace for refusals still reports which targets
// hold the bundle.
func TestTrustStatusOfAnOlderRotator(t *testing.T) {
	data := api.TrustStatus{BundleHash: "h", Targets: 3, Holding: 1, Pending: 1, Refusing: 1}.Data()
	for _, key := range []string{api.TrustSince, api.TrustLate, api.TrustGrace, api.TrustNamespaces} {
		delete(data, key)
	}
	got, err := api.ParseTrustStatus(data)
	require.NoError(t, err)
	assert.Equal(t, api.TrustStatus{BundleHash: "h", Targets: 3, Holding: 1, Pending: 1, Refusing: 1}, got)
	assert.Equal(t, 2, got.HoldingUp(), "all are waited for")
}

func TestTrustStatusLines(t *testing.T) {
	data := func(notHolding string) map[string]string {
		d := api.TrustStatus{}.Data()
		d[api.TrustNotHolding] = notHolding
		return d
	}
	tests := map[string]api.TrustStatus{
		"": {},
		"ConfigMap shop/x: Immutable: the ConfigMap is immutable: delete it": {NotHolding: []api.TrustTarget{
			{Kind: "ConfigMap", Namespace: "shop", Name: "x", Reason: "Immutable", Message: "the ConfigMap is immutable: delete it"}}},
		"ClusterTrustBundle servingcert.dev:serving:ca: NoSource: none": {NotHolding: []api.TrustTarget{
			{Kind: "ClusterTrustBundle", Name: "servingcert.dev:serving:ca", Reason: "NoSource", Message: "none"}}},
		"APIService (all): Forbidden: no rights": {NotHolding: []api.TrustTarget{
			{Kind: "APIService", Name: api.TrustAllOfKind, Reason: "Forbidden", Message: "no rights"}}},
		"X":                {NotHolding: []api.TrustTarget{{Message: "X"}}},
		"a line: of words": {NotHolding: []api.TrustTarget{{Message: "a line: of words"}}},
		"A b: C: D\nand 7 more": {Unlisted: 7, NotHolding: []api.TrustTarget{
			{Kind: "A", Name: "b", Reason: "C", Message: "D"}}},
		"and 07 more": {NotHolding: []api.TrustTarget{{Message: "and 07 more"}}},
		"and 0 more":  {NotHolding: []api.TrustTarget{{Message: "and 0 more"}}},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			got, err := api.ParseTrustStatus(data(text))
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.Equal(t, text, got.Data()[api.TrustNotHolding])
		})
	}
}

func TestTrustStatusDamaged(t *testing.T) {
	sound := api.TrustStatus{BundleHash: "h", Targets: 4, Holding: 2, Pending: 1, Refusing: 1}
	for _, wrong := range []string{"", "many", "-1", "1.5", "99999999999999999999"} {
		data := maps.Clone(sound.Data())
		data[api.TrustPending] = wrong
		got, err := api.ParseTrustStatus(data)
		assert.EqualError(t, err, fmt.Sprintf("key pending: %q: must be a count", wrong))
		want := sound
		want.Pending = 0
		assert.Equal(t, want, got, "what can be read is")
	}
	_, err := api.ParseTrustStatus(nil)
	for _, key := range []string{"targets", "holding", "pending", "refusing"} {
		assert.ErrorContains(t, err, "key "+key)
	}
}
