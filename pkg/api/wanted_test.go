package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// named returns a Service of namespace shop that requests Secret web-tls and was
// created age after created.
func named(name string, age time.Duration, annotations ...string) *corev1.Service {
	svc := service(annotations...)
	svc.Name, svc.CreationTimestamp = name, metav1.NewTime(created.Add(age))
	return svc
}

// refusals returns which Services are refused, and why.
func refusals(members []Member) map[string]string {
	out := map[string]string{}
	for _, m := range members {
		if m.Err != nil {
			out[m.Service.Name] = m.Err.Error()
		}
	}
	return out
}

func TestMergeUnitesNames(t *testing.T) {
	wanted, members, ok := Merge([]*corev1.Service{
		named("b", 2*time.Second, AnnotationRenewAfter, "2026-05-01T00:00:00Z"),
		named("a", time.Second, AnnotationKeyAlgorithm, "RSA2048", AnnotationRenewAfter, "2026-04-01T00:00:00Z"),
	}, DefaultLimits())
	require.True(t, ok)
	assert.Empty(t, refusals(members))
	assert.Equal(t, "a", members[0].Service.Name, "oldest first")
	assert.Equal(t, []string{"a.shop.svc", "a.shop.svc.cluster.local", "b.shop.svc", "b.shop.svc.cluster.local"}, wanted.DNSNames)
	assert.Equal(t, Params{pki.RSA2048, 720 * time.Hour}, wanted.Params, "the oldest one's parameters; a default contradicts none")
	assert.Equal(t, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), wanted.RenewAfter)
}

// One Service that requests the key and the chain in one file is enough, unless it is
// refused.
func TestMergeCombined(t *testing.T) {
	asks := []string{AnnotationCombinedPEM, "true"}
	for name, c := range map[string]struct {
		services []*corev1.Service
		want     bool
	}{
		"nobody asks":                    {[]*corev1.Service{named("a", 0), named("b", 1)}, false},
		"the oldest asks":                {[]*corev1.Service{named("a", 0, asks...), named("b", 1)}, true},
		"another asks":                   {[]*corev1.Service{named("a", 0), named("b", 1, asks...)}, true},
		"one asks, and one says false":   {[]*corev1.Service{named("a", 0, AnnotationCombinedPEM, "false"), named("b", 1, asks...)}, true},
		"all say false":                  {[]*corev1.Service{named("a", 0, AnnotationCombinedPEM, "false")}, false},
		"the one that asks is refused":   {[]*corev1.Service{named("a", 0), named("b", 1, AnnotationCombinedPEM, "true", AnnotationDuration, "abc")}, false},
		"another has a wrong value":      {[]*corev1.Service{named("a", 0, asks...), named("b", 1, AnnotationCombinedPEM, "yes")}, true},
		"the only one has a wrong value": {[]*corev1.Service{named("a", 0), named("b", 1, AnnotationCombinedPEM, "yes")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, _, ok := Merge(c.services, DefaultLimits())
			require.True(t, ok)
			assert.Equal(t, c.want, wanted.Formats.Has(&formats.Combined))
		})
	}
}

func TestMergeRefusesTheNewcomer(t *testing.T) {
	cases := []struct {
		name     string
		services []*corev1.Service
		want     Params
		refused  map[string]string // a part of why
	}{
		{
			"another algorithm",
			[]*corev1.Service{named("a", 0, AnnotationKeyAlgorithm, "RSA2048"), named("b", 1, AnnotationKeyAlgorithm, "ED25519"), named("c", 2)},
			Params{pki.RSA2048, 720 * time.Hour},
			map[string]string{"b": `servingcert.dev/key-algorithm: "ED25519": must be RSA2048, because Secret "web-tls" is shared with the older Service "a"`},
		},
		{
			"a keystore of a post-quantum key",
			[]*corev1.Service{named("a", 0, AnnotationKeyAlgorithm, "MLDSA44"), named("b", 1, AnnotationFormats, "keystore.p12"), named("c", 2, AnnotationFormats, "truststore.p12")},
			Params{pki.MLDSA44, 720 * time.Hour},
			map[string]string{"b": `servingcert.dev/formats: "keystore.p12": keystore.p12 cannot be made of a key of type MLDSA44, which Java's TLS does not support: requires another servingcert.dev/key-algorithm, and Secret "web-tls" is shared with the older Service "a"`},
		},
		{
			"another duration",
			[]*corev1.Service{named("a", 0, AnnotationDuration, "2h"), named("b", time.Hour, AnnotationDuration, "3h"), named("c", 2*time.Hour, AnnotationDuration, "120m")},
			Params{pki.ECDSAP256, 2 * time.Hour},
			map[string]string{"b": `servingcert.dev/duration: "3h": must be 2h, because Secret "web-tls" is shared with the older Service "a"`},
		},
		{
			"other than the default that the oldest has",
			[]*corev1.Service{named("a", 0), named("b", time.Hour, AnnotationKeyAlgorithm, "RSA2048")},
			Params{pki.ECDSAP256, 720 * time.Hour},
			map[string]string{"b": "must be ECDSAP256, because"},
		},
		{
			"a wrong oldest does not decide",
			[]*corev1.Service{named("a", 0, AnnotationKeyAlgorithm, "DSA"), named("b", time.Hour, AnnotationKeyAlgorithm, "RSA2048"), named("c", 2*time.Hour, AnnotationKeyAlgorithm, "ED25519")},
			Params{pki.RSA2048, 720 * time.Hour},
			map[string]string{"a": "unknown key algorithm", "c": `Service "b"`},
		},
		{
			"equal age: the name decides",
			[]*corev1.Service{named("b", 0, AnnotationDuration, "3h"), named("a", 0, AnnotationDuration, "2h")},
			Params{pki.ECDSAP256, 2 * time.Hour},
			map[string]string{"b": `Service "a"`},
		},
		{
			"too many names together",
			[]*corev1.Service{service(AnnotationExtraDNSNames, names(97)), named("x", time.Hour)},
			Params{pki.ECDSAP256, 720 * time.Hour},
			map[string]string{"x": "would have 101 names together: must be at most 100"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wanted, members, ok := Merge(c.services, DefaultLimits())
			require.True(t, ok)
			assert.Equal(t, c.want, wanted.Params)
			refused := refusals(members)
			assert.Len(t, refused, len(c.refused), "%v", refused)
			for name, why := range c.refused {
				assert.Contains(t, refused[name], why)
				assert.False(t, slices.ContainsFunc(wanted.DNSNames, func(n string) bool { return strings.HasPrefix(n, name+".") }), "names of a refused Service")
			}
			for _, m := range members {
				if m.Err == nil {
					assert.Contains(t, wanted.DNSNames, m.Service.Name+".shop.svc")
				}
			}
		})
	}
}

func TestMergeOfNone(t *testing.T) {
	_, members, ok := Merge(nil, DefaultLimits())
	assert.False(t, ok)
	assert.Empty(t, members)
	_, members, ok = Merge([]*corev1.Service{named("a", 0, AnnotationDuration, "abc")}, DefaultLimits())
	assert.False(t, ok)
	assert.Len(t, members, 1)
}

// A newer Service, whatever it requests, changes neither the parameters nor the names
// of the older ones.
func TestANewcomerDisturbsNobody(t *testing.T) {
	limits := permissive()
	draw := func(t *rapid.T, name string, age time.Duration) *corev1.Service {
		svc := named(name, age)
		for key, values := range map[string][]string{
			AnnotationDuration:      {"", "2h", "3h", "abc"},
			AnnotationKeyAlgorithm:  {"", "RSA2048", "ED25519", "DSA"},
			AnnotationExtraDNSNames: {"", "www.apps.example.com", "x." + name + ".shop.svc", "example.org", strings.ReplaceAll(names(60), "web.shop", name+".shop")},
			AnnotationClusterIPs:    {"", "true", "false", "maybe"},
			AnnotationCombinedPEM:   {"", "true", "false", "maybe"},
		} {
			if v := rapid.SampledFrom(values).Draw(t, key); v != "" {
				svc.Annotations[key] = v
			}
		}
		return svc
	}
	rapid.Check(t, func(t *rapid.T) {
		var services []*corev1.Service
		for i := range rapid.IntRange(0, 4).Draw(t, "services") {
			services = append(services, draw(t, fmt.Sprintf("s%d", i), time.Duration(i)*time.Second))
		}
		before, members, ok := Merge(services, limits)
		all := append(slices.Clone(services), draw(t, "newcomer", time.Hour))
		after, membersAfter, okAfter := Merge(rapid.Permutation(all).Draw(t, "order"), limits)

		require.LessOrEqual(t, len(after.DNSNames), MaxNames)
		require.Len(t, membersAfter, len(all))
		for i, m := range members {
			require.Same(t, m.Service, membersAfter[i].Service)
			require.Equal(t, m.Err == nil, membersAfter[i].Err == nil, "%s", m.Service.Name)
		}
		if !ok {
			return
		}
		require.True(t, okAfter)
		require.Equal(t, before.Params, after.Params)
		require.Zero(t, before.Formats&^after.Formats)
		for _, name := range before.DNSNames {
			require.Contains(t, after.DNSNames, name)
		}
		if membersAfter[len(membersAfter)-1].Err != nil {
			require.Equal(t, before, after, "a refused newcomer changes nothing at all")
			require.Equal(t, before.Hash(), after.Hash())
		}
	})
}

func TestHash(t *testing.T) {
	hash := func(change ...string) string {
		wanted, _, ok := Merge([]*corev1.Service{service(change...)}, permissive())
		require.True(t, ok)
		return wanted.Hash()
	}
	base := hash()
	assert.Regexp(t, `^[0-9a-f]{16}$`, base)
	assert.Equal(t, base, hash())
	assert.Equal(t, base, hash(AnnotationRenewAfter, "2026-05-01T00:00:00Z"), "when is not what")
	assert.Equal(t, base, hash(AnnotationDuration, "720h"), "the default said in words")
	assert.Equal(t, base, hash(AnnotationCombinedPEM, "true"), "where the certificate stands is not what it is")
	assert.Equal(t, "37af705d778f3916", base, "the same in every release")
	seen := map[string]bool{base: true}
	for _, change := range [][]string{
		{AnnotationDuration, "2h"}, {AnnotationKeyAlgorithm, "RSA2048"}, {AnnotationExtraDNSNames, "a.web.shop.svc"}, {AnnotationClusterIPs, "true"},
	} {
		h := hash(change...)
		assert.False(t, seen[h], "%v changes nothing", change)
		seen[h] = true
	}
}

func TestRetained(t *testing.T) {
	wanted := Retained([]*corev1.Service{
		named("b", time.Hour, AnnotationKeyAlgorithm, "DSA", AnnotationExtraDNSNames, "x.b.shop.svc,example.org", AnnotationClusterIPs, "maybe"),
		named("a", 0, AnnotationClusterIPs, "true"),
	}, permissive())
	assert.Equal(t, []string{"a.shop.svc", "a.shop.svc.cluster.local", "b.shop.svc", "b.shop.svc.cluster.local", "x.b.shop.svc"}, wanted.DNSNames,
		"each name that a Service may have, and none that it may not")
	assert.Len(t, wanted.IPs, 2)
	assert.Equal(t, Params{pki.ECDSAP256, 720 * time.Hour}, wanted.Params)

	assert.Zero(t, wanted.Formats)
	for _, services := range [][]*corev1.Service{
		{named("a", 0), named("b", 1, AnnotationCombinedPEM, "true", AnnotationDuration, "abc")},
		{service(AnnotationExtraDNSNames, names(97)), named("x", time.Hour, AnnotationCombinedPEM, "true")},
	} {
		assert.True(t, Retained(services, permissive()).Formats.Has(&formats.Combined), "even of a Service whose names have no room")
	}

	full := Retained([]*corev1.Service{service(AnnotationExtraDNSNames, names(97)), named("x", time.Hour), named("old", -time.Hour)}, permissive())
	assert.LessOrEqual(t, len(full.DNSNames), MaxNames)
	assert.Contains(t, full.DNSNames, "old.shop.svc", "the oldest first")
}

// If there are too many names, a Service loses the last extra name, whether it shares
// the Secret or not, but never its default names.
func TestOneNameTooMany(t *testing.T) {
	own := []string{"web.shop.svc", "web.shop.svc.cluster.local"}
	extras := strings.Split(names(99), ",")
	tooMany := service(AnnotationExtraDNSNames, names(99)) // 101 with its own
	older := named("older", -time.Hour)
	for name, c := range map[string]struct {
		got     Wanted
		without []string
	}{
		"alone":                              {Retained([]*corev1.Service{tooMany}, permissive()), extras[98:]},
		"with an older one":                  {Retained([]*corev1.Service{tooMany, older}, permissive()), extras[96:]},
		"beside the names of a valid one":    {withRetained(mergeOf(t, older), []*corev1.Service{tooMany}, permissive()), extras[96:]},
		"beside a newer one with many names": {Retained([]*corev1.Service{tooMany, named("x", time.Hour, AnnotationExtraDNSNames, "y.x.shop.svc")}, permissive()), extras[96:]},
	} {
		assert.Len(t, c.got.DNSNames, MaxNames, name)
		for _, n := range append(slices.Clone(own), extras...) {
			assert.Equal(t, !slices.Contains(c.without, n), slices.Contains(c.got.DNSNames, n), "%s: %s", name, n)
		}
	}
	full := mergeOf(t, service(AnnotationExtraDNSNames, names(98)))
	assert.Equal(t, full, withRetained(full, []*corev1.Service{named("x", time.Hour)}, permissive()), "what is asked for validly goes first")
}

// mergeOf returns the combined request of the Services, which are all valid.
func mergeOf(t require.TestingT, services ...*corev1.Service) Wanted {
	wanted, members, ok := Merge(services, permissive())
	require.True(t, ok)
	require.Empty(t, refusals(members))
	return wanted
}

// The names retained in addition to valid requests fill the room up to MaxNames, and are
// from the beginning of each list.
func TestWhatIsRetained(t *testing.T) {
	limits := permissive()
	limits.FormerDomains = []string{"old.example"}
	crowded := 0
	rapid.Check(t, func(t *rapid.T) {
		var services []*corev1.Service
		lists := map[*corev1.Service][]string{} // what each may have, its own names first
		for i := range rapid.IntRange(1, 6).Draw(t, "services") {
			name := fmt.Sprintf("s%d", i)
			svc := named(name, time.Duration(rapid.IntRange(0, 3).Draw(t, "age"))*time.Second, AnnotationClusterIPs, rapid.SampledFrom([]string{"true", "maybe"}).Draw(t, "IPs"))
			var list []string
			for n := range rapid.SampledFrom([]int{0, 1, 30, 97, 98, 99, 100}).Draw(t, "extra") {
				list = append(list, fmt.Sprintf("n%02d.%s.shop.svc", n, name))
			}
			if rapid.Bool().Draw(t, "headless") {
				svc.Spec.ClusterIP, svc.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
			}
			svc.Annotations[AnnotationExtraDNSNames] = strings.Join(append(slices.Clone(list), "not.permitted"), ",")
			lists[svc] = append(serviceNames(svc, limits.ClusterDomain), list...)
			services = append(services, svc)
		}
		before := Wanted{Params: Params{pki.RSA2048, 2 * time.Hour}}
		if n := rapid.IntRange(-1, 98).Draw(t, "names of the others"); n == 0 {
			before = mergeOf(t, service())
		} else if n > 0 {
			before = mergeOf(t, service(AnnotationExtraDNSNames, names(n)))
		}
		got := withRetained(before, rapid.Permutation(services).Draw(t, "order"), limits)

		require.LessOrEqual(t, len(got.DNSNames), MaxNames)
		require.LessOrEqual(t, len(got.IPs), MaxNames)
		require.True(t, slices.IsSorted(got.DNSNames))
		require.Equal(t, before.Params, got.Params)
		require.NotContains(t, got.DNSNames, "not.permitted")
		for _, name := range before.DNSNames {
			require.Contains(t, got.DNSNames, name)
		}
		slices.SortFunc(services, OlderFirst)
		room, own := MaxNames-len(before.DNSNames), 0
		for _, svc := range services {
			list := lists[svc]
			ownOfIt := len(serviceNames(svc, limits.ClusterDomain))
			has := func(name string) bool { return slices.Contains(got.DNSNames, name) }
			for i, name := range list[:ownOfIt] {
				require.Equal(t, own+i < room, has(name), "its own name %s", name)
			}
			own += ownOfIt
			for i, name := range list[1:] {
				require.True(t, has(list[i]) || !has(name), "%s is kept and %s before it is not", name, list[i])
			}
			for _, name := range list[:min(len(list), MaxNames)] {
				require.True(t, has(name) || len(got.DNSNames) == MaxNames, "%s is left out, and there is room", name)
			}
		}
		if len(got.DNSNames) == MaxNames {
			crowded++
		}
	})
	assert.Greater(t, crowded, 20, "hardly any certificate is full")
}

func withRetained(w Wanted, services []*corev1.Service, limits Limits) Wanted {
	retained, _ := w.WithRetained(services, limits)
	return retained
}
