package hostfiles_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const name = "web.shop.svc"

func TestWhatReplacesWhat(t *testing.T) {
	now := time.Now()
	ca, other := rotatortest.NewCA(t, 1, now), rotatortest.NewCA(t, 2, now)
	s := &hostfiles.Store{Name: "web", Kind: hostfiles.Pair, Names: []string{name}}
	loose := &hostfiles.Store{Name: "web", Kind: hostfiles.Pair}
	at := func(ago time.Duration, names ...string) *hostfiles.Content {
		return hosttest.Content(t, s, ca, now.Add(-ago), names...)
	}
	untrusted := hosttest.Files(t, other, ca.Issue(t, now, name))
	bad, err := hostfiles.Read(s, untrusted, nil)
	require.NoError(t, err)
	untrusted.Bundle = nil
	bare, err := hostfiles.Read(s, untrusted, nil)
	require.NoError(t, err)
	kept, err := hostfiles.Read(s, untrusted, []*x509.Certificate{other.Root})
	require.NoError(t, err)
	here := at(10*time.Minute, name)
	addressed := func(ago time.Duration, ip string) *hostfiles.Content {
		c := at(ago)
		c.Leaf.IPAddresses = []net.IP{net.ParseIP(ip)}
		return c
	}
	for title, c := range map[string]struct {
		store *hostfiles.Store
		here  *hostfiles.Content
		next  *hostfiles.Content
		want  string
	}{
		"newer":                        {s, here, at(time.Minute, name), ""},
		"nothing is installed":         {s, nil, at(time.Minute, name), ""},
		"older":                        {s, here, at(20*time.Minute, name), "is older"},
		"older, installed one expired": {s, at(2*time.Hour, name), at(20*time.Minute, name), ""},
		"older, of a trusted CA":       {s, hosttest.Content(t, s, other, now, name), at(20*time.Minute, name), ""},
		"expired":                      {s, nil, at(2*time.Hour, name), "expired at"},
		"not yet valid":                {s, nil, at(-time.Hour, name), "not valid before"},
		"another Service's":            {s, nil, at(0, "api.shop.svc"), `is not for "web.shop.svc"`},
		"another's, none declared":     {loose, here, at(0, "api.shop.svc"), "has none of the names"},
		"more names, none declared":    {loose, here, at(0, name, "api.shop.svc"), ""},
		"of another CA":                {s, nil, bad, "does not verify under ca.crt"},
		"no bundle, now or before":     {s, nil, bare, ""}, // nothing says by which CA it must be
		"no bundle, one is installed":  {s, here, kept, "does not verify under ca.crt"},
		"the same address":             {loose, addressed(10*time.Minute, "10.0.0.1"), addressed(0, "10.0.0.1"), ""},
		"another's address":            {loose, addressed(10*time.Minute, "10.0.0.1"), addressed(0, "10.0.0.2"), `"10.0.0.1"`},
	} {
		err := hostfiles.Worse(c.store, hostfiles.Found{Content: c.here}, c.next, now)
		if c.want == "" {
			assert.NoError(t, err, title)
		} else {
			assert.ErrorContains(t, err, c.want, title)
		}
	}
}

func TestReadErrors(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	s := &hostfiles.Store{Name: "web", Kind: hostfiles.Pair, Combined: true}
	a, b := hosttest.Files(t, ca, ca.Issue(t, now, name)), hosttest.Files(t, ca, ca.Issue(t, now, name))
	for want, f := range map[string]hostfiles.Files{
		"must both exist":                          {Cert: a.Cert},
		"does not belong to the certificate":       {Cert: a.Cert, Key: b.Key},
		"tls.crt: certificate 1: not PEM":          {Cert: []byte("half"), Key: a.Key},
		"tls.crt: no certificate":                  {Cert: []byte{}, Key: a.Key},
		"tls.key: no PEM block in the private key": {Cert: a.Cert, Key: a.Key[:40]},
		"tls.key: text before the private key":     {Cert: a.Cert, Key: append([]byte("a key\n"), a.Key...)},
		"tls.key: the private key has PEM headers": {Cert: a.Cert, Key: bytes.Replace(a.Key, []byte("KEY-----\n"), []byte("KEY-----\nA: b\n\n"), 1)},
		"ca.crt: no certificate":                   {Cert: a.Cert, Key: a.Key, Bundle: []byte{}},
		"tls.crt and tls.key: must both exist":     {Cert: a.Cert, Combined: slices.Concat(b.Cert, b.Key)},
	} {
		_, err := hostfiles.Read(s, f, nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "PRIVATE")
	}
	c, err := hostfiles.Read(s, a, nil)
	require.NoError(t, err)
	require.Equal(t, string(a.Cert)+string(a.Key), string(c.Files["web-current.pem"]))
	signer, err := pki.ParseKey(a.Key)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(signer.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	other, err := hostfiles.Read(s, hostfiles.Files{Cert: a.Cert, Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}), Bundle: a.Bundle}, nil)
	require.NoError(t, err)
	require.NotEqual(t, c.ID, other.ID, "another encoding of the key is installed too")
	bundled, err := hostfiles.Read(s, hostfiles.Files{Combined: append(append([]byte{}, a.Key...), a.Cert...)}, c.Roots)
	require.NoError(t, err)
	require.Equal(t, c.ID, bundled.ID, "a combined file, with the given roots")
	a.Combined = slices.Concat(b.Cert, b.Key)
	both, err := hostfiles.Read(s, a, nil)
	require.NoError(t, err)
	require.Equal(t, c.ID, both.ID, "tls.crt and tls.key take precedence over tls-combined.pem")
	a.Bundle = nil
	rootless, err := hostfiles.Read(s, a, nil)
	require.NoError(t, err)
	require.NotContains(t, rootless.Files, hostfiles.BundleFile)
}

func TestReadBundle(t *testing.T) {
	now := time.Now()
	s := &hostfiles.Store{Name: "anchors", Kind: hostfiles.Bundle}
	_, err := hostfiles.Read(s, hostfiles.Files{}, nil)
	require.ErrorContains(t, err, "ca.crt: does not exist")
	first, later := rotatortest.NewCA(t, 1, now).Root, rotatortest.NewCA(t, 2, now.Add(time.Hour)).Root
	file := pki.EncodeCertificates(later, first)
	c, err := hostfiles.Read(s, hostfiles.Files{Bundle: file}, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{hostfiles.BundleFile: file}, c.Files)
	assert.Equal(t, first.NotAfter, c.NotAfter())
	assert.Zero(t, (*hostfiles.Content)(nil).NotAfter())
	require.NoError(t, c.Fault(s, nil, first.NotAfter.Add(time.Minute)), "one of them is enough")
	require.ErrorContains(t, c.Fault(s, nil, later.NotAfter.Add(time.Minute)), "all 2 CA certificates have expired")
	found := hostfiles.Found{Content: c}
	d := hostfiles.Decide(hostfiles.Situation{Store: s, Now: now, Source: found, Here: found})
	assert.Equal(t, hostfiles.Decision{
		Step: hostfiles.Wait, Reason: hostfiles.Current, Message: "a bundle is installed",
	}, d)
}

// world simulates a store: it applies each decision, and advances the time.
type world struct {
	t      *testing.T
	sit    hostfiles.Situation
	serves string // fingerprint at the address
	action error
	effect func(*world) // what the action does
	acted  int
	rolled int
}

func (w *world) run(length time.Duration) hostfiles.Decision {
	end := w.sit.Now.Add(length)
	for range 100_000 {
		d := hostfiles.Decide(w.sit)
		served := hostfiles.Served{Fingerprint: w.serves, Failure: "connection refused"}
		switch d.Step {
		case hostfiles.Install:
			w.sit.State = w.sit.State.Begin(w.sit.Store, d.Content, served, "", "", w.sit.Now)
			if !d.KeepPrevious {
				w.sit.Previous = w.sit.Here
			}
			w.sit.Here = hostfiles.Found{Content: d.Content}
		case hostfiles.GoBack:
			w.rolled++
			w.sit.State = w.sit.State.Begin(w.sit.Store, d.Content, hostfiles.Served{}, d.Message, w.sit.Here.Content.ID, w.sit.Now)
			w.sit.Here = hostfiles.Found{Content: d.Content}
		case hostfiles.Act:
			w.acted++
			if w.effect != nil {
				w.effect(w)
			}
			w.sit.State = w.sit.State.Acted(w.action, w.sit.Now)
		case hostfiles.Dial:
			w.sit.State = w.sit.State.Observed(w.sit.Store, served, w.sit.Now)
		case hostfiles.SetModes:
			w.sit.Access = ""
		case hostfiles.Wait:
			next := w.sit.Now.Add(time.Minute)
			if !d.Again.IsZero() && d.Again.Before(next) {
				next = d.Again
			}
			require.True(w.t, next.After(w.sit.Now), "waits for a time in the past: %+v", d)
			if next.After(end) {
				w.sit.Now = end
				return d
			}
			w.sit.Now = next
		}
	}
	w.t.Fatal("it never waits")
	return hostfiles.Decision{}
}

func newWorld(t *testing.T, store hostfiles.Store) (w *world, ca rotatortest.CA) {
	now := time.Now()
	ca = rotatortest.NewCA(t, 1, now)
	store.Name, store.Kind, store.From = "web", hostfiles.Pair, "/from"
	w = &world{t: t, sit: hostfiles.Situation{Store: &store, Now: now, Pace: hostfiles.DefaultPace}}
	w.sit.Source.Content = hosttest.Content(t, &store, ca, now.Add(-30*time.Minute), name)
	w.serves = w.sit.Source.Content.Fingerprint
	d := w.run(0)
	require.Equal(t, hostfiles.Wait, d.Step)
	w.run(time.Minute)
	w.acted = 0
	return w, ca
}

func (w *world) renew(ca rotatortest.CA) *hostfiles.Content {
	w.sit.Source.Content = hosttest.Content(w.t, w.sit.Store, ca, w.sit.Now, name)
	return w.sit.Source.Content
}

func serveHere(w *world) { w.serves = w.sit.Here.Content.Fingerprint }

var (
	checked = &hostfiles.Check{Address: "127.0.0.1:10259", Timeout: 2 * time.Minute}
	program = hostfiles.Action{Exec: []string{"/bin/reload"}, Timeout: time.Second}
)

func TestASwitchActsOnceAndIsProven(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	w.effect = serveHere
	c := w.renew(ca)
	d := w.run(time.Hour / 2)
	assert.Equal(t, hostfiles.Current, d.Reason)
	assert.Equal(t, 1, w.acted)
	assert.Equal(t, c.ID, w.sit.Here.Content.ID)
	assert.True(t, w.sit.State.Switch.Proven)
	assert.True(t, d.Reason.Ready())
	w.renew(ca)
	w.run(0)
	assert.Equal(t, c, w.sit.Previous.Content, "it was served: a rollback restores it")
	// After a loss of the state there is nothing to do.
	w.sit.State = hostfiles.State{}
	assert.Equal(t, hostfiles.Wait, hostfiles.Decide(w.sit).Step)
}

// A program may have read the chain and the bundle as well, so the action runs for these too, at the same pace.
func TestAnotherChainOrBundleActsToo(t *testing.T) {
	w, _ := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	other := rotatortest.NewCA(t, 2, w.sit.Now)
	installed := w.sit.Here.Content
	files := hostfiles.Files{Cert: installed.Files[hostfiles.CertFile], Key: installed.Files[hostfiles.KeyFile], Bundle: installed.Files[hostfiles.BundleFile]}
	for i, change := range []func(){
		func() { files.Bundle = slices.Concat(files.Bundle, pki.EncodeCertificates(other.Root)) },
		func() { files.Cert = slices.Concat(files.Cert, pki.EncodeCertificates(other.Root)) },
	} {
		change()
		var err error
		w.sit.Source.Content, err = hostfiles.Read(w.sit.Store, files, nil)
		require.NoError(t, err)
		d := w.run(time.Minute)
		assert.Equal(t, hostfiles.Current, d.Reason)
		assert.Equal(t, w.sit.Source.Content.ID, w.sit.Here.Content.ID)
		assert.Equal(t, installed.Fingerprint, w.sit.Here.Content.Fingerprint)
		assert.Equal(t, i+1, w.acted)
	}
}

func TestAProgramHasTimeToServeWhatItIsGiven(t *testing.T) {
	for _, action := range []hostfiles.Action{program, {}} {
		w, ca := newWorld(t, hostfiles.Store{Action: action, Check: checked})
		old := w.sit.Here.Content
		first := w.renew(ca)
		w.serves = ""
		assert.Equal(t, hostfiles.InProgress, w.run(30*time.Second).Reason)
		// The second certificate waits for the check of the first, and replaces it after that.
		second := w.renew(ca)
		w.run(time.Minute)
		assert.Equal(t, first.ID, w.sit.Here.Content.ID)
		serveHere(w)
		w.run(2 * time.Second)
		assert.Equal(t, second.ID, w.sit.Here.Content.ID, "observed every second")
		assert.Zero(t, w.rolled)
		assert.NotEqual(t, old.ID, w.sit.Previous.Content.ID)
	}
}

func TestRollbackSkipsContentNeverServed(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Check: checked})
	old := w.sit.Here.Content
	w.renew(ca)
	assert.Equal(t, hostfiles.Stale, w.run(10*time.Minute).Reason)
	w.renew(ca)
	assert.Equal(t, hostfiles.InProgress, w.run(time.Minute).Reason)
	assert.Equal(t, old.ID, w.sit.Previous.Content.ID)
	assert.Zero(t, w.acted)
}

func TestSourceRefusedStatesTheReason(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	s := &hostfiles.Store{Name: "web", Kind: hostfiles.Pair, From: "/from"}
	early := hosttest.Content(t, s, ca, now.Add(10*time.Minute), name)
	for want, sit := range map[string]hostfiles.Situation{
		"; nothing is installed": {Source: hostfiles.Found{Content: early}},
		"; the installed files cannot be used: no key": {
			Source: hostfiles.Found{Content: early}, Here: hostfiles.Found{Problem: errors.New("no key")},
		},
	} {
		sit.Store, sit.Now = s, now
		d := hostfiles.Decide(sit)
		assert.Equal(t, hostfiles.SourceRefused, d.Reason)
		assert.Contains(t, d.Message, "/from: the certificate is not valid before")
		assert.Contains(t, d.Message, want)
		assert.Equal(t, early.Leaf.NotBefore, d.Again)
	}
}

func TestAProgramThatDiesGetsItsCertificateBack(t *testing.T) {
	for title, dead := range map[string]func(*world, *hostfiles.Content){
		"refused": func(w *world, bad *hostfiles.Content) {
			if w.sit.Here.Content.ID == bad.ID {
				w.serves = ""
				return
			}
			serveHere(w)
		},
		"another certificate": func(w *world, bad *hostfiles.Content) {
			if w.sit.Here.Content.ID == bad.ID {
				w.serves = "0123456789abcdef"
				return
			}
			serveHere(w)
		},
	} {
		w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
		w.sit.Delay = time.Minute
		old := w.sit.Here.Content
		bad := w.renew(ca)
		w.effect = func(w *world) { dead(w, bad) }
		d := w.run(15 * time.Minute)
		assert.Equal(t, hostfiles.RolledBack, d.Reason, title)
		assert.Contains(t, d.Message, "127.0.0.1:10259 served a certificate before", title)
		assert.Equal(t, old.ID, w.sit.Here.Content.ID, title)
		assert.Equal(t, 1, w.rolled, title)
		assert.Equal(t, 2, w.acted, "%s: once for each", title)
		assert.Equal(t, w.sit.State.Switch.At, w.sit.State.Switch.ActedAt, "a rollback ignores the window")
		// Another certificate is tried.
		good := w.renew(ca)
		w.effect = serveHere
		d = w.run(10 * time.Minute)
		assert.Equal(t, hostfiles.Current, d.Reason, title)
		assert.Equal(t, good.ID, w.sit.Here.Content.ID, title)
		assert.Nil(t, w.sit.State.Avoid, title)
	}
}

// A rollback restores neither a certificate of a distrusted CA nor an earlier bundle.
func TestADistrustedCADoesNotComeBack(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	old := w.sit.Here.Content
	both := rotatortest.NewCA(t, 2, w.sit.Now)
	w.sit.Source.Content = hosttest.Content(t, w.sit.Store, ca, w.sit.Now, name)
	files := hostfiles.Files{Cert: w.sit.Source.Content.Files[hostfiles.CertFile], Key: w.sit.Source.Content.Files[hostfiles.KeyFile], Bundle: pki.EncodeCertificates(ca.Root, both.Root)}
	var err error
	w.sit.Source.Content, err = hostfiles.Read(w.sit.Store, files, nil)
	require.NoError(t, err)
	w.effect = func(w *world) { w.serves = "" }
	w.run(10 * time.Minute)
	assert.Equal(t, 1, w.rolled)
	assert.Equal(t, old.Fingerprint, w.sit.Here.Content.Fingerprint)
	assert.Equal(t, files.Bundle, w.sit.Here.Content.Files[hostfiles.BundleFile], "the current bundle")

	w.effect = serveHere
	w.run(10 * time.Minute)
	bad := w.renew(both) // its bundle has only this CA
	w.serves = w.sit.Here.Content.Fingerprint
	w.effect = func(w *world) { w.serves = "" }
	d := w.run(30 * time.Minute)
	assert.Equal(t, hostfiles.NotServed, d.Reason)
	assert.Equal(t, bad.ID, w.sit.Here.Content.ID)
	assert.Equal(t, 1, w.rolled)

	// The bundle of the source is installed whatever its age, but only with a pair that can be read.
	files = hostfiles.Files{Cert: bad.Files[hostfiles.CertFile], Key: bad.Files[hostfiles.KeyFile], Bundle: files.Bundle}
	for _, key := range [][]byte{files.Key, []byte("garbage")} {
		w.sit.Source.Content, w.sit.Source.Problem = hostfiles.Read(w.sit.Store, hostfiles.Files{Cert: files.Cert, Key: key, Bundle: files.Bundle}, nil)
		w.run(10 * time.Minute)
		assert.Equal(t, pki.EncodeCertificates(ca.Root, both.Root), w.sit.Here.Content.Files[hostfiles.BundleFile], "%s", key)
		files.Bundle = pki.EncodeCertificates(both.Root)
	}
}

// A switch that is due delays neither the action of the last switch nor its check.
func TestASourceThatChangesBeforeTheAction(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	w.run(time.Minute)
	w.effect = serveHere
	first := w.renew(ca)
	w.sit.Delay = 10 * time.Second
	w.run(time.Second)
	assert.Equal(t, first.ID, w.sit.Here.Content.ID)
	w.renew(ca)
	w.run(20 * time.Second)
	assert.Equal(t, 1, w.acted)
	assert.True(t, w.sit.State.Switch.Proven)
	assert.Equal(t, first.ID, w.sit.Here.Content.ID)
}

// The number of changes in the source does not decide how often a program is restarted.
func TestASourceThatChangesAllTheTime(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program})
	w.run(time.Minute)
	begun := w.sit.Now
	for w.sit.Now.Before(begun.Add(10 * time.Minute)) {
		w.renew(ca)
		w.run(time.Second)
	}
	assert.LessOrEqual(t, w.acted, 11)
	assert.GreaterOrEqual(t, w.acted, 9)
	w.run(time.Minute)
	w.renew(ca)
	w.run(time.Second)
	last := w.renew(ca)
	d := w.run(time.Second)
	assert.Equal(t, hostfiles.InProgress, d.Reason)
	assert.Equal(t, "waiting: switches must be at least 1m0s apart", d.Message)
	w.run(time.Minute)
	assert.Equal(t, last.ID, w.sit.Here.Content.ID)

	for check, want := range map[*hostfiles.Check]int{nil: 3, {Address: checked.Address, Timeout: 20 * time.Second}: 4} {
		w, ca = newWorld(t, hostfiles.Store{Action: program, Check: check})
		w.action, w.effect = errors.New("exit status 1"), func(w *world) { w.serves = "" }
		w.renew(ca)
		w.run(time.Minute)
		assert.Equal(t, want, w.acted, "%v", check)
		assert.Equal(t, want-3, w.rolled)
	}
}

func TestRolledBackContentIsRetriedLater(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	bad := w.renew(ca)
	w.effect = func(w *world) { w.serves = "" }
	w.run(5 * time.Minute)
	assert.Equal(t, 1, w.rolled)
	w.sit.State.Avoid.Until = w.sit.Now
	w.effect = serveHere
	assert.Equal(t, hostfiles.Current, w.run(5*time.Minute).Reason)
	assert.Equal(t, bad.ID, w.sit.Here.Content.ID)
}

func TestAFailedActionOfAProgramThatDiedIsRolledBack(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	bad := w.renew(ca)
	w.effect = func(w *world) {
		w.serves, w.action = "", errors.New("exit status 1")
		if w.sit.Here.Content.ID != bad.ID {
			w.serves, w.action = w.sit.Here.Content.Fingerprint, nil
		}
	}
	d := w.run(15 * time.Minute)
	assert.Equal(t, hostfiles.RolledBack, d.Reason)
	assert.Contains(t, d.Message, "the action failed: exit status 1")
	assert.Equal(t, 1, w.rolled)
}

func TestStaleProgramIsRetriedNotRolledBack(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	w.renew(ca)
	w.run(3 * time.Minute)
	for range 40 {
		assert.Equal(t, hostfiles.Stale, w.run(time.Minute).Reason, "also while the action is retried")
	}
	assert.Zero(t, w.rolled)
	assert.Greater(t, w.acted, 2)
	assert.Less(t, w.acted, 20, "with backoff")
	next := w.renew(ca)
	w.effect = serveHere
	d := w.run(10 * time.Minute)
	assert.Equal(t, hostfiles.Current, d.Reason, "a new certificate does not wait: %s", d.Message)
	assert.Equal(t, next.ID, w.sit.Here.Content.ID)
}

func TestAPortThatNeverServedRollsNothingBack(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	w.serves = ""
	w.renew(ca)
	d := w.run(30 * time.Minute)
	assert.Equal(t, hostfiles.NotServed, d.Reason)
	assert.Zero(t, w.rolled)
	assert.Equal(t, 1, w.acted)
	serveHere(w)
	assert.Equal(t, hostfiles.Current, w.run(5*time.Minute).Reason)
}

func TestAnActionThatFailsIsTriedAgainWithBackoff(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program})
	w.action = errors.New("exit status 1")
	w.renew(ca)
	d := w.run(29 * time.Minute)
	assert.Equal(t, hostfiles.ActionFailed, d.Reason)
	assert.Equal(t, 8, w.acted, "after 10 s, 20 s, 40 s and so on, and at most 10 minutes")
	w.action = nil
	assert.Equal(t, hostfiles.Current, w.run(15*time.Minute).Reason)
}

func TestASourceThatVanishesTakesNothingAway(t *testing.T) {
	w, _ := newWorld(t, hostfiles.Store{Action: program})
	here := w.sit.Here.Content
	w.sit.Source = hostfiles.Found{Problem: errors.New("tls.crt and tls.key: must both exist")}
	d := w.run(10 * time.Minute)
	assert.Equal(t, hostfiles.SourceMissing, d.Reason)
	assert.Contains(t, d.Message, "/from: tls.crt and tls.key: must both exist; certificate ")
	assert.Same(t, here, w.sit.Here.Content)
	assert.Zero(t, w.acted)
	assert.False(t, d.Reason.Ready())
}

func TestAHostWaitsForItsTurn(t *testing.T) {
	action := program
	action.Window = 10 * time.Minute
	w, ca := newWorld(t, hostfiles.Store{Action: action, Check: checked})
	w.sit.Delay = 5 * time.Minute
	w.renew(ca)
	d := w.run(4 * time.Minute)
	assert.Equal(t, hostfiles.InProgress, d.Reason)
	assert.Equal(t, "waiting for this host's turn to run /bin/reload", d.Message)
	assert.Zero(t, w.acted)
	w.run(2 * time.Minute)
	assert.Equal(t, 1, w.acted)
	assert.Zero(t, hostfiles.Spread("a", "web", 0))
	seen := map[time.Duration]bool{}
	for _, host := range []string{"a", "b", "c", "d"} {
		delay := hostfiles.Spread(host, "web", time.Hour)
		assert.Equal(t, delay, hostfiles.Spread(host, "web", time.Hour))
		assert.Less(t, delay, time.Hour)
		seen[delay] = true
	}
	assert.Len(t, seen, 4)
}

func TestGoingBackIsResumed(t *testing.T) {
	w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
	old := w.sit.Here
	bad := w.renew(ca)
	w.sit.Previous, w.sit.Here = old, hostfiles.Found{Content: bad}
	w.sit.State = w.sit.State.Begin(w.sit.Store, old.Content, hostfiles.Served{}, "it died", bad.ID, w.sit.Now)
	d := hostfiles.Decide(w.sit)
	assert.Equal(t, hostfiles.GoBack, d.Step)
	assert.Equal(t, old.Content.ID, d.Content.ID)
}

// If the trusted CAs changed while a rollback was interrupted, the rollback goes on with the current bundle, unless
// clients would no longer accept the previous certificate.
func TestGoingBackIsResumedWithTheRootsOfNow(t *testing.T) {
	for title, c := range map[string]struct{ keeps, back bool }{"another CA came": {true, true}, "its CA went": {false, false}} {
		w, ca := newWorld(t, hostfiles.Store{Action: program, Check: checked})
		other := rotatortest.NewCA(t, 2, w.sit.Now)
		old := w.sit.Here
		bad := w.renew(ca)
		w.sit.Previous, w.sit.Here = old, hostfiles.Found{Content: bad}
		w.sit.State = w.sit.State.Begin(w.sit.Store, old.Content, hostfiles.Served{}, "it died", bad.ID, w.sit.Now)
		now := hosttest.Content(t, w.sit.Store, other, w.sit.Now, name)
		if c.keeps {
			files := hostfiles.Files{Cert: now.Files[hostfiles.CertFile], Key: now.Files[hostfiles.KeyFile], Bundle: pki.EncodeCertificates(ca.Root, other.Root)}
			var err error
			now, err = hostfiles.Read(w.sit.Store, files, nil)
			require.NoError(t, err, title)
		}
		w.sit.Source = hostfiles.Found{Content: now}
		d := hostfiles.Decide(w.sit)
		if !c.back {
			assert.Equal(t, hostfiles.Wait, d.Step, "%s: the last switch is too recent", title)
			w.sit.Now = w.sit.Now.Add(w.sit.Pace)
			d = hostfiles.Decide(w.sit)
			assert.Equal(t, hostfiles.Install, d.Step, title)
			assert.Equal(t, now.ID, d.Content.ID, title)
			continue
		}
		assert.Equal(t, hostfiles.GoBack, d.Step, title)
		assert.Equal(t, old.Content.Fingerprint, d.Content.Fingerprint, title)
		assert.Equal(t, now.Files[hostfiles.BundleFile], d.Content.Files[hostfiles.BundleFile], title)
		w.serves = d.Content.Fingerprint
		w.effect = serveHere
		w.run(time.Second)
		assert.Equal(t, 1, w.rolled, "%s: once", title)
	}
}
