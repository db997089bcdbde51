package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/keymaterial"
)

func TestNewState(t *testing.T) {
	s := first(t)
	require.NoError(t, validate(s))
	require.Len(t, s.Generations, 1)
	g := s.Generations[0]
	assert.Equal(t, pki.NotBefore(start), g.Root.NotBefore, "backdated for clients whose clock is behind")
	assert.Equal(t, DefaultCADuration, pki.Lifetime(g.Root))
	assert.Equal(t, clusterOnly, pki.ConstraintsOf(g.Root))
	algorithm, _ := pki.AlgorithmOf(g.Root.PublicKey)
	assert.Equal(t, pki.ECDSAP256, algorithm)
	assert.True(t, g.UsedUntil.After(start.Add(maxDuration)), "the mark is there before the first leaf")
}

// requireSame compares states by what they hold.
func requireSame(t require.TestingT, want, got State) {
	require.Equal(t, want.Signing, got.Signing)
	require.Equal(t, want.Rotation, got.Rotation)
	require.Equal(t, want.Import, got.Import)
	require.Len(t, got.Generations, len(want.Generations))
	for i, w := range want.Generations {
		g := got.Generations[i]
		require.Equal(t, w.Number, g.Number)
		require.True(t, w.Root.Equal(g.Root))
		require.Equal(t, w.Cross == nil, g.Cross == nil)
		if w.Cross != nil {
			require.True(t, w.Cross.Equal(g.Cross))
		}
		require.Equal(t, w.Key == nil, g.Key == nil)
		if w.Key != nil {
			require.True(t, w.Key.(interface{ Equal(crypto.PrivateKey) bool }).Equal(g.Key))
		}
		require.Equal(t, w.Domain, g.Domain)
		require.Equal(t, w.Why, g.Why)
		require.Equal(t, w.Origin, g.Origin)
		require.Equal(t, w.Retired, g.Retired)
		require.Equal(t, pki.EncodeCertificates(w.Intermediates...), pki.EncodeCertificates(g.Intermediates...))
		require.Equal(t, []time.Time{w.MadeAt, w.TrustedAt, w.SignsSince, w.UsedUntil}, []time.Time{g.MadeAt, g.TrustedAt, g.SignsSince, g.UsedUntil})
	}
}

func TestStateRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := rapid.IntRange(1, 5).Draw(t, "newest")
		from := rapid.IntRange(1, to).Draw(t, "oldest")
		signing := rapid.IntRange(from, to).Draw(t, "signing")
		s := generations(t, from, to, signing)
		for i := range s.Generations {
			s.Generations[i].UsedUntil = rapid.SampledFrom([]time.Time{{}, start, start.Add(400 * day)}).Draw(t, "mark")
		}
		data := secretData(t, s)
		got, err := ParseState(data)
		require.NoError(t, err)
		requireSame(t, s, got)
		require.Equal(t, data, secretData(t, got), "equal states are equal bytes")
	})
}

func TestKeysOfTheSecret(t *testing.T) {
	data := secretData(t, generations(t, 1, 3, 2))
	var keys []string
	for key := range data {
		keys = append(keys, key)
	}
	assert.ElementsMatch(t, []string{
		"state.json",
		"generation-1.crt",
		"generation-2.crt", "generation-2.key", "generation-2.cross.crt",
		"generation-3.crt", "generation-3.key", "generation-3.cross.crt",
	}, keys, "generation 1 no longer signs: its key is gone")
	assert.JSONEq(t, `{"version": 1, "signing": 2, "generations": [
		{"number": 1, "domain": "cluster.local", "madeAt": "2026-03-02T12:00:00Z", "signsSince": "2026-03-02T12:00:00Z", "usedUntil": "2026-05-31T12:00:00Z"},
		{"number": 2, "domain": "cluster.local", "madeAt": "2026-03-03T12:00:00Z", "signsSince": "2026-03-03T12:00:00Z", "usedUntil": "2026-06-01T12:00:00Z"},
		{"number": 3, "domain": "cluster.local", "madeAt": "2026-03-04T12:00:00Z"}]}`, string(data["state.json"]))
}

func TestAStateThatIsNotValidIsNotWritten(t *testing.T) {
	s := first(t)
	s.Signing = 2
	_, err := EncodeState(s)
	assert.ErrorContains(t, err, "generation 2 signs and is not listed")
}

// with returns data with some keys changed; nil takes a key away.
func with(data map[string][]byte, changes map[string][]byte) map[string][]byte {
	data = maps.Clone(data)
	for key, value := range changes {
		if data[key] = value; value == nil {
			delete(data, key)
		}
	}
	return data
}

// resigned returns the root as changed by change, signed by key.
func resigned(t *testing.T, template x509.Certificate, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) []byte {
	t.Helper()
	if parent == nil {
		parent = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, public, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestCorruptSecrets(t *testing.T) {
	s, foreign := generations(t, 1, 3, 2), first(t).Generations[0]
	good := secretData(t, s)
	one, two, three := s.Generations[0], s.Generations[1], s.Generations[2]
	key2 := encodedKey(t, two)
	noCA := *two.Root
	noCA.IsCA = false
	noSign := *two.Root
	noSign.KeyUsage = x509.KeyUsageDigitalSignature
	state := func(from, to string) map[string][]byte {
		text := strings.Replace(string(good["state.json"]), from, to, 1)
		require.NotEqual(t, text, string(good["state.json"]), "%s is not there", from)
		return map[string][]byte{"state.json": []byte(text)}
	}
	cases := []struct {
		name    string
		changes map[string][]byte
		want    string
	}{
		{"no state", map[string][]byte{"state.json": nil}, "state.json: missing"},
		{"empty state", map[string][]byte{"state.json": {}}, "state.json: missing"},
		{"state of garbage", map[string][]byte{"state.json": []byte("garbage")}, "state.json: must hold the JSON"},
		{"state is a key", map[string][]byte{"state.json": key2}, "state.json: must hold the JSON"},
		{"state cut off", map[string][]byte{"state.json": good["state.json"][:30]}, "state.json: must hold the JSON"},
		{"two states", map[string][]byte{"state.json": append(good["state.json"], good["state.json"]...)}, "state.json: must hold the JSON"},
		{"state of an older form than the first", state(`"version": 1`, `"version": 0`), "state.json: version 0: must be 1"},
		{"a number of another type", state(`"signing": 2`, `"signing": "2"`), "state.json: must hold the JSON"},
		{"no generation", map[string][]byte{"state.json": []byte(`{"version": 1, "signing": 1, "generations": []}`)}, "state.json: must list at least one generation"},
		{"number 0", state(`"number": 1`, `"number": 0`), "state.json: generation 0: must be at least 1"},
		{"a number twice", state(`"number": 1`, `"number": 2`), "state.json: generation 2 must be listed once"},
		{"numbers descend", map[string][]byte{"state.json": []byte(`{"version": 1, "signing": 2, "generations": [{"number": 1}, {"number": 3}, {"number": 2}]}`)}, "state.json: generation 2 is listed after generation 3: must be in ascending order"},
		{"unknown origin", state(`"domain": "cluster.local"`, `"origin": "stolen"`), `state.json: generation 1: unknown origin: must be "import", "remote" or absent`},
		{"the one that signs is retired", state(`"usedUntil": "2026-06-01T12:00:00Z"`, `"retired": true`), "state.json: generation 2 is retired"},
		{"an unlisted generation signs", state(`"signing": 2`, `"signing": 9`), "state.json: generation 9 signs and is not listed"},
		{"a generation without a key signs", state(`"signing": 2`, `"signing": 1`), "generation-1.key: missing"},
		{"no certificate", map[string][]byte{"generation-2.crt": nil}, "generation-2.crt: missing"},
		{"empty certificate", map[string][]byte{"generation-2.crt": {}}, "generation-2.crt: must hold one certificate"},
		{"certificate of garbage", map[string][]byte{"generation-2.crt": []byte("garbage")}, "generation-2.crt: must hold one certificate"},
		{"certificate cut off", map[string][]byte{"generation-2.crt": good["generation-2.crt"][:100]}, "generation-2.crt: must hold one certificate"},
		{"two certificates", map[string][]byte{"generation-2.crt": append(good["generation-2.crt"], good["generation-3.crt"]...)}, "generation-2.crt: must hold one certificate, holds 2"},
		{"a key for a certificate", map[string][]byte{"generation-2.crt": key2}, "generation-2.crt: must hold one certificate"},
		{"key and certificate swapped", map[string][]byte{"generation-2.crt": key2, "generation-2.key": good["generation-2.crt"]}, "generation-2.crt: must hold one certificate"},
		{"no CA", map[string][]byte{"generation-2.crt": resigned(t, noCA, nil, two.Root.PublicKey, two.Key)}, "generation-2.crt: the certificate is not a CA"},
		{"may not sign", map[string][]byte{"generation-2.crt": resigned(t, noSign, nil, two.Root.PublicKey, two.Key)}, "generation-2.crt: the certificate's key usage"},
		{"not self-signed", map[string][]byte{"generation-2.crt": good["generation-2.cross.crt"]}, "generation-2.crt: the certificate is not self-signed"},
		{"no key", map[string][]byte{"generation-2.key": nil}, "generation-2.key: missing"},
		{"no key of the next", map[string][]byte{"generation-3.key": nil}, "generation-3.key: missing"},
		{"empty key", map[string][]byte{"generation-2.key": {}}, "generation-2.key: must hold one private key"},
		{"key cut off", map[string][]byte{"generation-2.key": key2[:80]}, "generation-2.key: must hold one private key"},
		{"two keys", map[string][]byte{"generation-2.key": append(key2, key2...)}, "generation-2.key: must hold one private key"},
		{"a foreign key", map[string][]byte{"generation-2.key": encodedKey(t, foreign)}, "generation-2.key: the private key does not belong to generation-2.crt"},
		{"two keys swapped", map[string][]byte{"generation-2.key": good["generation-3.key"], "generation-3.key": key2}, "generation-2.key: the private key belongs to generation-3.crt, not to generation-2.crt"},
		{"a key that was erased is another's", map[string][]byte{"generation-1.key": encodedKey(t, foreign)}, "generation-1.key: the private key does not belong"},
		{"cross-certificate of garbage", map[string][]byte{"generation-2.cross.crt": []byte("garbage")}, "generation-2.cross.crt: must hold one certificate"},
		{"a root for a cross-certificate", map[string][]byte{"generation-2.cross.crt": good["generation-2.crt"]}, "generation-2.cross.crt: the certificate is self-signed"},
		{"another's cross-certificate", map[string][]byte{"generation-2.cross.crt": good["generation-3.cross.crt"]}, "generation-2.cross.crt: the key of the certificate is not the key of generation-2.crt"},
		{"a cross-certificate that a foreign signed", map[string][]byte{"generation-2.cross.crt": resigned(t, *two.Root, foreign.Root, two.Root.PublicKey, foreign.Key)}, "generation-2.cross.crt: the certificate was not signed by generation-1.crt"},
		{"a cross-certificate that is no CA", map[string][]byte{"generation-3.cross.crt": resigned(t, noCA, two.Root, three.Root.PublicKey, two.Key)}, "generation-3.cross.crt: the certificate is not a CA"},
		{"a cross-certificate of another name", map[string][]byte{"generation-3.cross.crt": resigned(t, *one.Root, two.Root, three.Root.PublicKey, two.Key)}, "generation-3.cross.crt: the subject of the certificate is not the subject of generation-3.crt"},
		{"a generation too many", map[string][]byte{"generation-4.crt": good["generation-3.crt"]}, "generation-4.crt: must belong to a generation"},
		{"a name with a generation's prefix", map[string][]byte{"generation-1.crt.bak": good["generation-1.crt"]}, "generation-1.crt.bak: must belong to a generation"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			data := with(good, c.changes)
			for range 3 {
				_, err := ParseState(data)
				require.ErrorContains(t, err, c.want)
				for _, key := range [][]byte{key2, good["generation-3.key"], encodedKey(t, foreign)} {
					keymaterial.AssertNone(t, key, fmt.Sprintf("%v %+v %#v", err, err, err), "the error")
				}
			}
			o := situation(data)
			o.Status, o.Now = &api.CAStatus{}, start.Add(10*day)
			d := Decide(o)
			assert.Empty(t, d.Step, "nothing is written over it")
			assert.Equal(t, api.CACorrupt, d.Problem.Reason)
			assert.Contains(t, d.Problem.Message, c.want)
			keymaterial.AssertNone(t, key2, d.Problem.Message, "the message")
		})
	}
}

// Any damage gives an error or the original state, never a panic, and never reveals the
// key.
func TestDamagedSecretsNeverTellOfTheKey(t *testing.T) {
	s := generations(t, 1, 2, 2)
	good := secretData(t, s)
	keys := []string{"state.json", "generation-1.crt", "generation-2.crt", "generation-2.key", "generation-2.cross.crt"}
	rapid.Check(t, func(r *rapid.T) {
		data := maps.Clone(good)
		for range rapid.IntRange(1, 3).Draw(r, "changes") {
			to := rapid.SampledFrom(keys).Draw(r, "to")
			from := rapid.SampledFrom(keys).Draw(r, "from")
			at := rapid.IntRange(0, len(data[to])).Draw(r, "at")
			cut := rapid.IntRange(0, len(data[from])).Draw(r, "cut")
			data[to] = append(append([]byte{}, data[to][:at]...), data[from][:cut]...)
		}
		if _, err := ParseState(data); err != nil {
			keymaterial.AssertNone(t, good["generation-2.key"], err.Error(), "the error")
		}
	})
}

func TestKeysOfOthersStay(t *testing.T) {
	s := first(t)
	data := merged(map[string][]byte{"note": []byte("backed up"), "generation-9.crt": nil, "state.json": nil}, secretData(t, s))
	assert.Equal(t, "backed up", string(data["note"]))
	assert.NotContains(t, data, "generation-9.crt")
	got, err := ParseState(data)
	require.NoError(t, err)
	requireSame(t, s, got)
}

func TestChain(t *testing.T) {
	names := func(certs []*x509.Certificate) (numbers []string) {
		for _, c := range certs {
			numbers = append(numbers, strings.Fields(c.Subject.CommonName)[2]+"<"+strings.Fields(c.Issuer.CommonName)[2])
		}
		return numbers
	}
	cases := []struct {
		name  string
		state State
		now   time.Time
		want  []string
	}{
		{"the first", first(t), start, nil},
		{"newest first", generations(t, 1, 3, 3), start.Add(10 * day), []string{"3<2", "2<1"}},
		{"from the one that signs", generations(t, 1, 3, 2), start.Add(10 * day), []string{"2<1"}},
		{"at most three", generations(t, 1, 5, 5), start.Add(10 * day), []string{"5<4", "4<3", "3<2"}},
		{"a forgotten root's cross is served as long as it lives", generations(t, 3, 4, 4), start.Add(10 * day), []string{"4<3", "3<2"}},
		{"to the last expired", generations(t, 1, 3, 3), start.Add(day + DefaultCADuration + time.Second), []string{"3<2"}},
	}
	for _, c := range cases {
		assert.Equal(t, c.want, names(ladder(c.state.Generations).issuer(c.state.signingIndex(), c.now).Chain), c.name)
	}
	over := generations(t, 1, 3, 3)
	ends := start.Add(day + DefaultCADuration)
	ending := ladder(over.Generations).issuer(2, ends.Add(-endingBefore))
	assert.Equal(t, []string{"3<2"}, names(ending.Chain))
	assert.Equal(t, []string{"2<1"}, names(ending.Ending), "what is served by leaves from before is known")
	assert.Equal(t, pki.Window{From: ends.Add(-endingBefore), Until: ends.Add(-time.Hour)}, ending.Shorten, "they are replaced before it expires")
	broken := generations(t, 1, 4, 4)
	broken.Generations[2].Cross = nil
	assert.Equal(t, []string{"4<3"}, names(ladder(broken.Generations).issuer(3, start.Add(10*day)).Chain), "what is below a missing rung leads nowhere")
}

func TestAuthority(t *testing.T) {
	s := generations(t, 1, 3, 2)
	a := s.authority(Situation{Now: start.Add(10 * day), Parameters: Parameters{Domain: "cluster.local", Reissue: DefaultReissue}})
	two := s.Generations[1]
	assert.True(t, two.Root.Equal(a.Certificate))
	assert.True(t, pki.KeyMatches(a.Certificate, a.Key))
	assert.Len(t, a.Bundle.Certificates(), 3, "the root that no longer signs and the one that does not yet are trusted too")
	assert.Equal(t, two.UsedUntil, a.SignUntil)
	assert.Equal(t, []*x509.Certificate{two.Root, s.Generations[0].Root}, a.Anchors, "not the one that does not sign yet")
	require.Len(t, a.Older, 1)
	assert.Equal(t, s.Generations[0].Root, a.Older[0].Certificate)
	assert.Equal(t, pki.Window{From: two.SignsSince, Until: two.SignsSince.Add(DefaultReissue)}, a.Reissue)
	assert.Empty(t, a.FormerDomains)
	assert.Equal(t, []string{"cluster.local"}, s.authority(Situation{Now: start.Add(10 * day), Parameters: Parameters{Domain: "example.org", Reissue: DefaultReissue}}).FormerDomains)
	for _, c := range a.Chain {
		assert.NotEqual(t, c.RawSubject, c.RawIssuer, "a root in the chain")
	}
	s.Generations[1].UsedUntil = two.Root.NotAfter.Add(day)
	assert.Equal(t, two.Root.NotAfter, s.authority(Situation{Now: start, Parameters: Parameters{Domain: "cluster.local", Reissue: DefaultReissue}}).SignUntil, "no leaf outlives its CA")
	s.Generations[s.signingIndex()].UsedUntil = time.Time{}
	assert.Zero(t, s.signing().signUntil(), "without a mark that was written down nothing is signed")
}

func TestRaised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := first(t)
		longest := time.Duration(rapid.Int64Range(3600, 8000*3600).Draw(t, "max duration")) * time.Second
		now, writes := start, 0
		for range 50 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 30*24*3600).Draw(t, "passes")) * time.Second)
			before := s.signing().UsedUntil
			s = raised(s, now, longest)
			g := s.signing()
			if !g.UsedUntil.Equal(before) {
				writes++
			}
			require.False(t, g.UsedUntil.Before(before), "the mark went down")
			require.False(t, g.UsedUntil.After(g.Root.NotAfter), "the mark outlives the CA")
			promised := now.Add(longest)
			if promised.After(g.Root.NotAfter) {
				promised = g.Root.NotAfter
			}
			require.False(t, g.signUntil().Before(promised), "the longest leaf may not be signed")
			require.True(t, raised(s, now, longest).signing().UsedUntil.Equal(g.UsedUntil), "raised twice at once")
		}
		require.LessOrEqual(t, writes, int(now.Sub(start)/day)+1+1, "more than one write a day")
	})
}

func TestRaisedLeavesTheOldStateAlone(t *testing.T) {
	s := first(t)
	before := s.signing().UsedUntil
	raised := raised(s, start.Add(2*day), maxDuration)
	assert.True(t, raised.signing().UsedUntil.After(before))
	assert.Equal(t, before, s.signing().UsedUntil)
}
