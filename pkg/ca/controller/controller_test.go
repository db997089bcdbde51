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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	h.Controller.events = eventWriter{h.events, c.key(c.cfg.Objects().Secret)}
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
	h.failed(h.ctx, found{}, errors.New("the API server is away"))
	_, err := h.Authority()
	assert.Equal(t, api.CAPending, reasonOf(t, err))
	assert.ErrorContains(t, h.Ready(nil), "the API server is away", "it leads and cannot work")

	h.observe(secretData(t, first(t)))
	require.NoError(t, h.Ready(nil))
	h.failed(h.ctx, found{}, errors.New("away again"))
	_, err = h.Authority()
	assert.NoError(t, err, "a CA that was read does not become wrong")

	h.observe(nil)
	h.failed(h.ctx, found{}, errors.New("away again"))
	_, err = h.Authority()
	assert.Equal(t, api.CALost, reasonOf(t, err), "nor a loss undone")
}

// server holds the CA Secret and the status. It does not let anyone read or create the refused object.
type server struct {
	stored
	client.Writer
	status  map[string]string
	refused string
	writes  int // of the status
}

func forbidden(name string) error {
	return apierrors.NewForbidden(corev1.Resource("objects"), name, errors.New("no right"))
}

func (s *server) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if cm, ok := object.(*corev1.ConfigMap); ok && key.Name == api.CAStatusName && s.status != nil {
		cm.Name, cm.Labels, cm.Data = key.Name, objectLabels, s.status
		return nil
	}
	if key.Name == s.refused && s.secret != nil {
		return forbidden(key.Name)
	}
	return s.stored.Get(ctx, key, object, options...)
}

func (s *server) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if object.GetName() == s.refused {
		return forbidden(s.refused)
	}
	s.secret = object.(*corev1.Secret).Data
	return nil
}

func (s *server) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	s.status = object.(*corev1.ConfigMap).Data
	s.writes++
	return nil
}

// problemOf returns the reasons for which the metrics are 1.
func (h *harness) problemOf(t *testing.T) (reasons []string) {
	t.Helper()
	families, err := registryOf(t, collector{h.Controller}).Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if strings.HasPrefix(family.GetName(), "servingcert_ca_") && m.GetGauge().GetValue() == 1 && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetName() == "reason" {
				reasons = append(reasons, m.GetLabel()[0].GetValue())
			}
		}
	}
	return reasons
}

// reconcile returns why nothing can be signed after a reconcile, and its error.
func (h *harness) reconcile(t *testing.T) (reason string, failed error) {
	t.Helper()
	_, failed = h.Reconcile(h.ctx, h.theOnly())
	_, err := h.Authority()
	return reasonOf(t, err), failed
}

// failsFor requires that reconciles are refused, and that nothing is signed then for the reason.
func (h *harness) failsFor(t *testing.T, reason string) {
	t.Helper()
	now, failed := h.reconcile(t)
	require.True(t, apierrors.IsForbidden(failed), "%v", failed)
	require.Equal(t, reason, now)
}

// A signer that cannot read the CA reports it: the alerts, the conditions and the status depend on it.
func TestFailuresAreReported(t *testing.T) {
	h := newHarness(t)
	s := &server{stored: stored{secret: secretData(t, first(t))}, status: map[string]string{api.BundleKey: "x"}, refused: api.TrustStatusName}
	h.reader, h.writer = s, s
	const text = "CAReconcileFailed: the CA cannot be read or written: read ConfigMap servingcert-trust-status: "
	h.failsFor(t, api.CAPending)
	h.now = h.now.Add(reportAfter - 1)
	h.failsFor(t, api.CAPending)
	assert.Zero(t, s.writes, "the API server may be restarted")
	h.now = h.now.Add(1)
	h.failsFor(t, api.CAReconcileFailed)
	assert.Equal(t, []string{api.CAReconcileFailed}, h.problemOf(t))
	assert.Contains(t, s.status[api.CAProblem], text)
	assert.Equal(t, "x", s.status[api.BundleKey])
	assert.Contains(t, h.drainEvents(), "Warning CAReconcileFailed")
	assert.Equal(t, 1, h.changes, "the conditions are to tell")
	h.failsFor(t, api.CAReconcileFailed)
	assert.Equal(t, 1, s.writes, "a write that causes a reconcile is made once")

	works := func() {
		t.Helper()
		s.refused = ""
		for range 2 {
			reason, failed := h.reconcile(t)
			require.NoError(t, failed)
			require.Empty(t, reason)
		}
		assert.Empty(t, h.problemOf(t))
		assert.NotContains(t, s.status, api.CAProblem)
		assert.NotContains(t, s.status, api.CAWarning)
	}
	works()
	bundle := s.status[api.BundleKey]
	s.refused = api.TrustStatusName
	h.failsFor(t, "")
	h.now = h.now.Add(reportAfter)
	h.failsFor(t, "")
	assert.Equal(t, []string{api.CAReconcileFailed}, h.problemOf(t), "it is a warning")
	assert.Contains(t, s.status[api.CAWarning], text)
	assert.NotContains(t, s.status, api.CAProblem)
	assert.Equal(t, bundle, s.status[api.BundleKey])
	works()
}

// So does one that cannot write the first CA.
func TestAFirstCAThatCannotBeWrittenIsReported(t *testing.T) {
	h := newHarness(t)
	s := &server{refused: api.CASecretName}
	h.reader, h.writer = s, s
	h.failsFor(t, api.CAPending)
	h.now = h.now.Add(reportAfter)
	h.failsFor(t, api.CAReconcileFailed)
	h.failsFor(t, api.CAReconcileFailed)
	assert.Nil(t, s.status, "a status would mean that there was a CA")
	assert.Equal(t, 1, strings.Count(h.drainEvents(), "CAReconcileFailed"), "it is said once")
}

// While the clock is wrong nothing is signed: alerts depend on the metric, which follows at once.
func TestAWrongClockIsAProblem(t *testing.T) {
	h := newHarness(t)
	h.observe(secretData(t, first(t)))
	require.Empty(t, h.problemOf(t))
	h.cfg.CheckClock = func() error { return errors.New("3m ahead") }
	assert.Equal(t, []string{api.CAClockSkew}, h.problemOf(t))
	h.observe(nil)
	assert.Equal(t, []string{api.CALost}, h.problemOf(t))
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
servingcert_ca_problem{reason="CAReconcileFailed"} 0
servingcert_ca_problem{reason="CAUnreachable"} 0
servingcert_ca_problem{reason="ClockSkew"} 0
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
servingcert_ca_warning{reason="CAReconcileFailed"} 0
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
servingcert_ca_problem{reason="CAReconcileFailed"} 0
servingcert_ca_problem{reason="CAUnreachable"} 0
servingcert_ca_problem{reason="ClockSkew"} 0
servingcert_ca_problem{reason="WaitingForTrust"} 0
`), "servingcert_ca_problem"))
}

// The API server refuses a note that is too long. A note that is cut within a character is not
// valid UTF-8, and cannot be sent.
func TestNotesAreBounded(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	eventWriter{recorder, types.NamespacedName{Namespace: "servingcert-system", Name: "servingcert-ca"}}.write("uid", corev1.EventTypeNormal, EventPrepared, "x"+strings.Repeat("é", 5000))
	note := strings.TrimPrefix(<-recorder.Events, "Normal CAPrepared ")
	assert.Len(t, note, 1024)
	assert.True(t, utf8.ValidString(note), "%q", note)
}
