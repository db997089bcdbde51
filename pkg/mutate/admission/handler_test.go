package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// world is what a handler under test is told about the cluster.
type world struct {
	cached, live choose.Known
	unsynced     bool
	err          error
	panics       bool
	noPodKeys    bool
	podKeysErr   error
	asked        []string // namespaces of live reads
}

// steadyClock returns a clock of which each look is 20 ms after the one before.
func steadyClock() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return time.Unix(0, 0).Add(time.Duration(looks.Add(1)) * 20 * time.Millisecond) }
}

func (w *world) handler(t testing.TB, log logr.Logger) (http.Handler, *prometheus.Registry) {
	t.Helper()
	h, registry := w.bare(t, log)
	return h.serving(), registry
}

// bare returns the handler that is behind controller-runtime's.
func (w *world) bare(t testing.TB, log logr.Logger) (*handler, *prometheus.Registry) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	require.NoError(t, err)
	h := &handler{
		cached: func(context.Context, string) (choose.Known, bool) { return w.cached, !w.unsynced },
		live: func(_ context.Context, namespace string) (choose.Known, error) {
			if w.panics {
				panic("a bug")
			}
			w.asked = append(w.asked, namespace)
			return w.live, w.err
		},
		programs: func() *programs.Table { return nil },
		podKeys:  func(context.Context) (bool, error) { return !w.noPodKeys, w.podKeysErr },
		memory:   newMemory(), metrics: metrics, clock: steadyClock(), log: log,
	}
	return h, registry
}

var webService = &corev1.Service{
	ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
	Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"},
		Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}},
	},
}

func knows(services ...*corev1.Service) choose.Known { return choose.Known{Services: services} }

func reviewOf(t testing.TB, pod *corev1.Pod) *admissionv1.AdmissionReview {
	t.Helper()
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: "shop",
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: raw},
		},
	}
}

func plainPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "example.com/web", Args: []string{"serve"}, Ports: []corev1.ContainerPort{{ContainerPort: 8443}},
		}}},
	}
}

// ask posts the review as the API server does.
func ask(t testing.TB, h http.Handler, review *admissionv1.AdmissionReview) (status int, body string, resp *admissionv1.AdmissionResponse) {
	t.Helper()
	data, err := json.Marshal(review)
	require.NoError(t, err)
	req := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(data))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	var answer admissionv1.AdmissionReview
	if rec.Code == http.StatusOK {
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answer))
		require.NotNil(t, answer.Response)
		require.Equal(t, review.Request.UID, answer.Response.UID)
	}
	return rec.Code, rec.Body.String(), answer.Response
}

func TestAMatchInTheInformersAsksNothing(t *testing.T) {
	w := &world{cached: knows(webService)}
	h, registry := w.handler(t, logr.Discard())
	_, _, resp := ask(t, h, reviewOf(t, plainPod()))
	require.True(t, resp.Allowed)
	assert.Contains(t, string(resp.Patch), "web-tls")
	assert.Equal(t, admissionv1.PatchTypeJSONPatch, *resp.PatchType)
	assert.Equal(t, map[string]string{"reasons": "Injected,UnknownProgram"}, resp.AuditAnnotations)
	assert.Empty(t, w.asked)

	named := plainPod()
	named.Labels, named.Annotations = nil, map[string]string{api.AnnotationSecretName: "web-tls"}
	_, _, resp = ask(t, h, reviewOf(t, named))
	assert.Contains(t, string(resp.Patch), api.BundleName, "a Service asks for the Secret, so the bundle verifies it")
	assert.Empty(t, w.asked, "rule 1, by a Secret that a Service in the informers asks for")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP servingcert_webhook_reviews_total Admission reviews answered, by result (injected, untouched, denied, failed) and reason.
# TYPE servingcert_webhook_reviews_total counter
servingcert_webhook_reviews_total{reason="Injected",result="injected"} 2
`), "servingcert_webhook_reviews_total"))
}

// Every way to answer is timed under its outcome, a request that is no review too.
func TestHowLongReviewsTake(t *testing.T) {
	wrong := plainPod()
	wrong.Annotations = map[string]string{api.AnnotationMode: "flags"}
	foreign := plainPod()
	foreign.Labels = nil
	for want, tt := range map[outcome]struct {
		world  world
		review *admissionv1.AdmissionReview
	}{
		outcomePatched:   {world{cached: knows(webService)}, reviewOf(t, plainPod())},
		outcomeUnchanged: {world{cached: knows(webService), live: knows(webService)}, reviewOf(t, foreign)},
		outcomeDenied:    {world{cached: knows(webService)}, reviewOf(t, wrong)},
		outcomeFailed:    {world{err: errors.New("timeout")}, reviewOf(t, plainPod())},
	} {
		t.Run(string(want), func(t *testing.T) {
			h, registry := tt.world.handler(t, logr.Discard())
			ask(t, h, tt.review)
			families, err := registry.Gather()
			require.NoError(t, err)
			i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool {
				return f.GetName() == "servingcert_webhook_review_duration_seconds"
			})
			require.GreaterOrEqual(t, i, 0)
			require.Len(t, families[i].GetMetric(), 4, "the series of every outcome are there from the start")
			for _, m := range families[i].GetMetric() {
				if got := m.GetLabel()[0].GetValue(); got != string(want) {
					assert.Zero(t, m.GetHistogram().GetSampleCount(), got)
					continue
				}
				assert.EqualValues(t, 1, m.GetHistogram().GetSampleCount())
				assert.InDelta(t, 0.02, m.GetHistogram().GetSampleSum(), 1e-9)
			}
		})
	}
}

func TestAServiceThatTheInformersHaveNotSeenIsAskedFor(t *testing.T) {
	for name, w := range map[string]*world{
		"not seen yet":   {live: knows(webService)},
		"not synced yet": {live: knows(webService), cached: knows(webService), unsynced: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := w.handler(t, logr.Discard())
			_, _, resp := ask(t, h, reviewOf(t, plainPod()))
			assert.Contains(t, string(resp.Patch), "web-tls")
			assert.Equal(t, []string{"shop"}, w.asked, "the request's namespace; the pod's is empty")
		})
	}
}

func TestPodsThatAreAloneAskNothing(t *testing.T) {
	optedOut, mirror := plainPod(), plainPod()
	optedOut.Labels[api.LabelInject] = api.InjectDisabled
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	for _, pod := range []*corev1.Pod{optedOut, mirror} {
		w := &world{live: knows(webService)}
		h, _ := w.handler(t, logr.Discard())
		_, _, resp := ask(t, h, reviewOf(t, pod))
		assert.True(t, resp.Allowed)
		assert.Empty(t, resp.Patch)
		assert.Empty(t, resp.Warnings)
		assert.Empty(t, w.asked)
	}
}

func TestOnlyCreateIsAnswered(t *testing.T) {
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"update":      func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"delete":      func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
		"subresource": func(r *admissionv1.AdmissionRequest) { r.SubResource = "ephemeralcontainers" },
		"other kind":  func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "services" },
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{cached: knows(webService)}
			h, _ := w.handler(t, logr.Discard())
			review := reviewOf(t, plainPod())
			change(review.Request)
			_, _, resp := ask(t, h, review)
			assert.True(t, resp.Allowed)
			assert.Empty(t, resp.Patch)
		})
	}
}

func TestAWrongAnnotationDenies(t *testing.T) {
	w := &world{cached: knows(webService)}
	h, registry := w.handler(t, logr.Discard())
	pod := plainPod()
	pod.Annotations = map[string]string{api.AnnotationMode: "flags"}
	_, _, resp := ask(t, h, reviewOf(t, pod))
	assert.False(t, resp.Allowed)
	assert.Equal(t, `servingcert.dev/mode: "flags": must be "args", "env" or "mount"`, resp.Result.Message)
	assert.EqualValues(t, http.StatusForbidden, resp.Result.Code)
	count, err := testutil.GatherAndCount(registry, "servingcert_webhook_reviews_total")
	require.NoError(t, err)
	assert.Equal(t, 1, count)
}

// TestNoAnswerIsAnHTTPError: an answer of allowed=false would refuse the pod
// even where failurePolicy says Ignore.
func TestNoAnswerIsAnHTTPError(t *testing.T) {
	for name, tc := range map[string]struct {
		world world
		says  string
	}{
		"the API server cannot be asked": {world{err: errors.New(`list Services of namespace "shop": timeout`)}, `servingcert cannot tell whether the pod gets a certificate: list Services of namespace "shop": timeout`},
		"a fault of ours":                {world{panics: true}, "internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h, registry := tc.world.handler(t, funcr.New(func(_, args string) { log.WriteString(args) }, funcr.Options{}))
			pod := plainPod()
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}
			status, body, _ := ask(t, h, reviewOf(t, pod))
			assert.Equal(t, http.StatusInternalServerError, status)
			assert.Contains(t, body, tc.says)
			assert.Contains(t, log.String(), "review failed")
			assert.NotContains(t, log.String(), "hunter2")
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP servingcert_webhook_reviews_total Admission reviews answered, by result (injected, untouched, denied, failed) and reason.
# TYPE servingcert_webhook_reviews_total counter
servingcert_webhook_reviews_total{reason="Error",result="failed"} 1
`), "servingcert_webhook_reviews_total"))
		})
	}
}

func TestWarningsAndAuditAnnotation(t *testing.T) {
	w := &world{cached: knows(webService)}
	h, registry := w.handler(t, logr.Discard())
	pod := plainPod()
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{}}
	_, _, resp := ask(t, h, reviewOf(t, pod))
	require.Len(t, resp.Warnings, 2)
	assert.Equal(t, "EnvFrom,Injected,UnknownProgram", resp.AuditAnnotations["reasons"])
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP servingcert_webhook_notes_total What admission reviews left out or did in another way than might be expected, by reason (see docs/injection.md).
# TYPE servingcert_webhook_notes_total counter
servingcert_webhook_notes_total{reason="EnvFrom"} 1
servingcert_webhook_notes_total{reason="UnknownProgram"} 1
`), "servingcert_webhook_notes_total"))
}

func TestWhatIsNoReview(t *testing.T) {
	const kind = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	for name, tc := range map[string]struct {
		body, contentType string
		status            int
	}{
		"nothing":       {"", "application/json", http.StatusBadRequest},
		"no JSON":       {"x", "application/json", http.StatusBadRequest},
		"no request":    {kind + `}`, "application/json", http.StatusBadRequest},
		"empty":         {kind + `,"request":{}}`, "application/json", http.StatusBadRequest},
		"other type":    {review(`{}`), "text/plain", http.StatusBadRequest},
		"no object":     {review(`null`), "application/json", http.StatusBadRequest},
		"no pod":        {review(`{"spec":{"containers":"none"}}`), "application/json", http.StatusBadRequest},
		"other kind":    {review(`{"apiVersion":"v1","kind":"Service"}`), "application/json", http.StatusBadRequest},
		"other version": {review(`{"apiVersion":"v2","kind":"Pod"}`), "application/json", http.StatusBadRequest},
		"too much":      {strings.Repeat(" ", 7<<20+1), "application/json", http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			h, registry := (&world{}).handler(t, logr.Discard())
			req := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(tc.body))
			req.Header.Set("Content-Type", tc.contentType)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			assert.Equal(t, tc.status, rec.Code, rec.Body.String())
			assert.Contains(t, rec.Body.String(), "servingcert cannot tell")
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP servingcert_webhook_reviews_total Admission reviews answered, by result (injected, untouched, denied, failed) and reason.
# TYPE servingcert_webhook_reviews_total counter
servingcert_webhook_reviews_total{reason="Error",result="failed"} 1
`), "servingcert_webhook_reviews_total"))
		})
	}
}

// TestTheVersionOfTheReviewIsThatOfTheAnswer: the API server takes no other.
func TestTheVersionOfTheReviewIsThatOfTheAnswer(t *testing.T) {
	for _, version := range []string{"admission.k8s.io/v1", "admission.k8s.io/v1beta1"} {
		h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
		asked := reviewOf(t, plainPod())
		asked.APIVersion = version
		body, err := json.Marshal(asked)
		require.NoError(t, err)
		var answer admissionv1.AdmissionReview
		rec := send(h, bytes.NewReader(body))
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answer))
		assert.Equal(t, "application/json", rec.Header().Get("Content-Type"))
		assert.Equal(t, asked.TypeMeta, answer.TypeMeta)
		assert.Contains(t, string(answer.Response.Patch), "web-tls")
	}
}

// TestFieldsThatAreNotKnownStay: a newer API server has fields that ours does not decode, and the
// patch only adds to what was sent.
func TestFieldsThatAreNotKnownStay(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","newer":1,"metadata":{"name":"web","labels":{"app":"web"},"newer":{"a":[1]}},"spec":{"newer":"x",` +
		`"volumes":[{"name":"v","emptyDir":{"newer":true},"newer":0}],` +
		`"containers":[{"name":"web","image":"example.com/web","args":["serve"],"ports":[{"containerPort":8443,"newer":null}],"newer":[{}],` +
		`"env":[{"name":"A","value":"b","newer":{}}],"volumeMounts":[{"name":"v","mountPath":"/v","newer":"y"}]}]}}`
	h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
	var answer admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(send(h, strings.NewReader(review(pod))).Body.Bytes(), &answer))
	patch, err := evanphx.DecodePatch(answer.Response.Patch)
	require.NoError(t, err)
	require.Greater(t, len(patch), 5)
	after, err := patch.Apply([]byte(pod))
	require.NoError(t, err)
	var before, now any
	require.NoError(t, json.Unmarshal([]byte(pod), &before))
	require.NoError(t, json.Unmarshal(after, &now))
	requireContains(t, now, before)
}

// requireContains fails unless whole has all that part has, and lists more elements at most.
func requireContains(t *testing.T, whole, part any) {
	t.Helper()
	switch part := part.(type) {
	case map[string]any:
		require.IsType(t, part, whole)
		for name, value := range part {
			require.Contains(t, whole, name)
			requireContains(t, whole.(map[string]any)[name], value)
		}
	case []any:
		require.IsType(t, part, whole)
		for _, element := range part { // ours have other names
			i := slices.IndexFunc(whole.([]any), func(other any) bool { return nameOf(other) == nameOf(element) })
			require.GreaterOrEqual(t, i, 0, "%v", element)
			requireContains(t, whole.([]any)[i], element)
		}
	default:
		require.Equal(t, part, whole)
	}
}

// nameOf returns what tells an element of a list from others.
func nameOf(element any) any {
	if object, ok := element.(map[string]any); ok {
		return object["name"]
	}
	return element
}

// TestStrangersWriteNoLog: whoever reaches the port can send what is no review, as often as
// they like.
func TestStrangersWriteNoLog(t *testing.T) {
	var lines []string
	h, _ := (&world{}).handler(t, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for _, body := range []string{"", "{", "[]", `{"kind":"AdmissionReview"}`} {
		assert.GreaterOrEqual(t, send(h, strings.NewReader(body)).Code, 400)
	}
	assert.Empty(t, lines)
}
