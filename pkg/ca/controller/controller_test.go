package controller

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/keymaterial"
)

func noneManaged(context.Context) (bool, error) { return false, nil }

// harness is a Controller without an API server: decisions are handed to it.
type harness struct {
	*Controller
	ctx     context.Context
	now     time.Time
	changes int
	log     bytes.Buffer
	events  *events.FakeRecorder
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{now: start, events: events.NewFakeRecorder(100)}
	c, err := newController(Config{
		Namespace:  "servingcert-system",
		Parameters: ca.Parameters{MaxDuration: maxDuration, Constraints: clusterOnly, Domain: "cluster.local"},
		Clock:      func() time.Time { return h.now }, ManagedExist: noneManaged,
		OnChange: func() { h.changes++ },
	})
	require.NoError(t, err)
	h.Controller = c
	h.Controller.events = eventWriter{h.events, "servingcert-system"}
	h.ctx = ctrl.LoggerInto(t.Context(), logr.FromSlogHandler(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug - 10})))
	return h
}

// observe decides from the Secret's data and stores the outcome.
func (h *harness) observe(data map[string][]byte) {
	f := found{Situation: situation(data)}
	f.Status, f.Now = &api.CAStatus{}, h.now
	h.use(h.ctx, f, ca.Decide(f.Situation))
}

func (h *harness) drainEvents() string {
	var all []string
	for {
		select {
		case e := <-h.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func reasonOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var notReady *ca.NotReadyError
	require.ErrorAs(t, err, &notReady)
	assert.Equal(t, notReady.Reason()+": "+notReady.Message(), err.Error())
	return notReady.Reason()
}

func TestStandbyIsReadyAndCannotSign(t *testing.T) {
	h := newHarness(t)
	_, err := h.Authority()
	assert.Equal(t, api.CAPending, reasonOf(t, err))
	assert.NoError(t, h.Ready(nil), "a replica that does not lead is no broken one")
	assert.Zero(t, testutil.CollectAndCount(collector{h.Controller}), "and it raises no alert")
}

func TestUnreadable(t *testing.T) {
	h := newHarness(t)
	h.unreadable(errors.New("the API server is away"))
	_, err := h.Authority()
	assert.Equal(t, api.CAPending, reasonOf(t, err))
	assert.ErrorContains(t, h.Ready(nil), "the API server is away", "it leads and cannot work")

	h.observe(secretData(t, first(t)))
	require.NoError(t, h.Ready(nil))
	h.unreadable(errors.New("away again"))
	_, err = h.Authority()
	assert.NoError(t, err, "a CA that was read does not become wrong")

	h.observe(nil)
	h.unreadable(errors.New("away again"))
	_, err = h.Authority()
	assert.Equal(t, api.CALost, reasonOf(t, err), "nor a loss undone")
}

func TestTheClockCountsAtOnce(t *testing.T) {
	h := newHarness(t)
	s := first(t)
	h.observe(secretData(t, s))
	root := s.Generations[0].Root
	for _, c := range []struct {
		now    time.Time
		reason string
	}{
		{start, ""},
		{root.NotBefore.Add(-time.Second), api.CANotYetValid},
		{root.NotBefore, ""},
		{root.NotAfter, ""},
		{root.NotAfter.Add(time.Second), api.CAExpired},
	} {
		h.now = c.now
		_, err := h.Authority()
		assert.Equal(t, c.reason, reasonOf(t, err), "%s", c.now)
		assert.Equal(t, c.reason != "", h.Ready(nil) != nil)
	}
}

func TestChangesAreReported(t *testing.T) {
	h := newHarness(t)
	one := first(t)
	observe := func(what string, data map[string][]byte, calls int, event string) {
		t.Helper()
		before := h.changes
		h.drainEvents()
		h.observe(data)
		assert.Equal(t, calls, h.changes-before, what)
		if events := h.drainEvents(); event == "" {
			assert.Empty(t, events, what)
		} else {
			assert.Contains(t, events, event, what)
		}
	}
	observe("usable", secretData(t, one), 1, "")
	authority, err := h.Authority()
	require.NoError(t, err)
	observe("the same", secretData(t, one), 0, "")
	again, err := h.Authority()
	require.NoError(t, err)
	assert.Same(t, authority, again, "what others derived from it stays good")

	raised := one
	raised.Generations = slices.Clone(one.Generations)
	raised.Generations[0].UsedUntil = raised.Generations[0].UsedUntil.Add(2 * day)
	observe("a raised mark", secretData(t, raised), 0, "")
	again, err = h.Authority()
	require.NoError(t, err)
	assert.True(t, again.SignUntil.After(authority.SignUntil))

	observe("lost", nil, 1, "Warning CALost")
	observe("still lost", nil, 0, "")
	observe("corrupt", map[string][]byte{"x": nil}, 1, "Warning CACorrupt")
	observe("restored", secretData(t, raised), 1, "Normal CAUsable")
	h.now = start.Add(10 * day)
	observe("another chain and bundle", secretData(t, second(t)), 1, "")
}

// Invariant 7: whatever the Secret holds, the key is in no log, event, metric,
// error or status.
func TestTheKeyIsNeverTold(t *testing.T) {
	h := newHarness(t)
	s := second(t)
	good := secretData(t, s)
	key := good["generation-2.key"]
	h.now = start.Add(10 * day)
	var said strings.Builder
	for _, data := range []map[string][]byte{
		good, nil,
		with(good, map[string][]byte{"generation-2.crt": key}),
		with(good, map[string][]byte{"generation-2.cross.crt": key}),
		with(good, map[string][]byte{"state.json": key}),
		with(good, map[string][]byte{"state.json": append([]byte(`{"version": 1, "`), key...)}),
		with(good, map[string][]byte{"state.json": []byte(`{"version": 1, "import": "` + strings.ReplaceAll(string(key), "\n", " ") + `", "generations": [{"number": 2}], "signing": 2}`)}),
		with(good, map[string][]byte{"state.json": []byte(`{"version": 1, "` + strings.ReplaceAll(string(key), "\n", " ") + `": 1}`)}),
		with(good, map[string][]byte{"generation-2.key": key[:100]}),
		with(good, map[string][]byte{"generation-1.key": key}),
		good,
	} {
		o := situation(data)
		o.Status, o.Constraints, o.Now = &api.CAStatus{}, pki.Constraints{PermittedDNS: []string{"other"}}, h.now
		_, o.ImportErr = ca.ParseImport(map[string][]byte{"tls.key": key, "tls.crt": key, "ca.crt": key})
		require.Error(t, o.ImportErr)
		d := ca.Decide(o)
		h.use(h.ctx, found{Situation: o}, d)
		if next, _, err := d.Apply(o); err == nil {
			h.reportStep(h.ctx, &corev1.Secret{}, found{Situation: o}, d, next)
		}
		for k, v := range d.Status.Data() {
			said.WriteString(k + "=" + v + "\n")
		}
		if err := h.Ready(nil); err != nil {
			said.WriteString(err.Error() + "\n")
		}
		said.WriteString(exposed(t, collector{h.Controller}))
	}
	said.WriteString(h.log.String())
	said.WriteString(h.drainEvents())
	require.Greater(t, said.Len(), 5000, "there is something to look at")
	require.Contains(t, string(key), base64.StdEncoding.EncodeToString(keymaterial.Scalar(t, key)[:6]), "what is looked for is what the PEM holds")
	keymaterial.AssertNone(t, key, said.String(), "what was told")
}

func TestMetrics(t *testing.T) {
	h := newHarness(t)
	s := first(t)
	h.observe(secretData(t, s))
	assert.NoError(t, testutil.CollectAndCompare(collector{h.Controller}, strings.NewReader(strings.ReplaceAll(`
# HELP servingcert_ca_generation_info 1 for each generation of the CA, with its state: waiting, signing, trusted (older, with certificates in use) or retired (only its part of the chain is left).
# TYPE servingcert_ca_generation_info gauge
servingcert_ca_generation_info{generation="1",state="signing",subject="SUBJECT"} 1
# HELP servingcert_ca_not_after_timestamp_seconds When the root of a generation of the CA expires, in seconds since 1970.
# TYPE servingcert_ca_not_after_timestamp_seconds gauge
servingcert_ca_not_after_timestamp_seconds{generation="1"} 1.8669741e+09
# HELP servingcert_ca_phase 1 for the phase that the succession of the CA is in, 0 for every other.
# TYPE servingcert_ca_phase gauge
servingcert_ca_phase{phase="Reissue"} 0
servingcert_ca_phase{phase="Retire"} 0
servingcert_ca_phase{phase="Stable"} 1
servingcert_ca_phase{phase="Wait"} 0
# HELP servingcert_ca_problem 1 for the reason why no certificate can be issued, 0 for every other reason.
# TYPE servingcert_ca_problem gauge
servingcert_ca_problem{reason="CACorrupt"} 0
servingcert_ca_problem{reason="CAExpired"} 0
servingcert_ca_problem{reason="CALost"} 0
servingcert_ca_problem{reason="CANewerVersion"} 0
servingcert_ca_problem{reason="CANotYetValid"} 0
servingcert_ca_problem{reason="CAPending"} 0
servingcert_ca_problem{reason="CAUnreachable"} 0
servingcert_ca_problem{reason="WaitingForTrust"} 0
# HELP servingcert_ca_signing_generation The number of the generation of the CA that signs.
# TYPE servingcert_ca_signing_generation gauge
servingcert_ca_signing_generation 1
# HELP servingcert_ca_used_until_timestamp_seconds Until when certificates of a generation of the CA may be in use, in seconds since 1970.
# TYPE servingcert_ca_used_until_timestamp_seconds gauge
servingcert_ca_used_until_timestamp_seconds{generation="1"} 1.780232400e+09
# HELP servingcert_ca_warning 1 for each reason of a current warning, 0 for every other: CAEnding is an imported CA that ends soon.
# TYPE servingcert_ca_warning gauge
servingcert_ca_warning{reason="CAConstraintsChanged"} 0
servingcert_ca_warning{reason="CAEnding"} 0
servingcert_ca_warning{reason="CAExtraRootsInvalid"} 0
servingcert_ca_warning{reason="CAImportInvalid"} 0
servingcert_ca_warning{reason="CARemoteInvalid"} 0
servingcert_ca_warning{reason="CARestored"} 0
servingcert_ca_warning{reason="RotationInvalid"} 0
servingcert_ca_warning{reason="SuccessionHeldUp"} 0
servingcert_ca_warning{reason="SuccessionWaits"} 0
`, "SUBJECT", s.Generations[0].Root.Subject.CommonName))))
	problems, err := testutil.GatherAndLint(registryOf(t, collector{h.Controller}))
	require.NoError(t, err)
	assert.Empty(t, problems)

	h.observe(nil)
	assert.NoError(t, testutil.CollectAndCompare(collector{h.Controller}, strings.NewReader(`
# HELP servingcert_ca_problem 1 for the reason why no certificate can be issued, 0 for every other reason.
# TYPE servingcert_ca_problem gauge
servingcert_ca_problem{reason="CACorrupt"} 0
servingcert_ca_problem{reason="CAExpired"} 0
servingcert_ca_problem{reason="CALost"} 1
servingcert_ca_problem{reason="CANewerVersion"} 0
servingcert_ca_problem{reason="CANotYetValid"} 0
servingcert_ca_problem{reason="CAPending"} 0
servingcert_ca_problem{reason="CAUnreachable"} 0
servingcert_ca_problem{reason="WaitingForTrust"} 0
`), "servingcert_ca_problem"))
}

// The API server refuses a note that is too long. A note that is cut within a character is not
// valid UTF-8, and cannot be sent.
func TestNotesAreBounded(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	eventWriter{recorder, "servingcert-system"}.write("uid", corev1.EventTypeNormal, EventPrepared, "x"+strings.Repeat("é", 5000))
	note := strings.TrimPrefix(<-recorder.Events, "Normal CAPrepared ")
	assert.Len(t, note, 1024)
	assert.True(t, utf8.ValidString(note), "%q", note)
}
