package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/test/bounded"
)

// send posts a body that may be no review.
func send(h http.Handler, body io.Reader) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, Path, body)
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

func review(object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","resource":{"version":"v1","resource":"pods"},"namespace":"shop","object":` + object + `}}`
}

// TestHostileReviewsCostLittle: bodies of which each byte would become a hundred.
func TestHostileReviewsCostLittle(t *testing.T) {
	const size = 300 << 10
	const manyValues = "the review has more than 30000 values"
	fill := func(element string) string { return strings.Repeat(element+",", size/(len(element)+1)) + element }
	for name, tc := range map[string]struct {
		body string
		says string
	}{
		"containers":   {review(`{"spec":{"containers":[` + fill("{}") + `]}}`), manyValues},
		"volumes":      {review(`{"spec":{"volumes":[` + fill("null") + `]}}`), manyValues},
		"mounts":       {review(`{"spec":{"containers":[{"volumeMounts":[` + fill("{}") + `]}]}}`), manyValues},
		"lists":        {review(`{"metadata":` + strings.Repeat("[", size) + strings.Repeat("]", size) + `}`), manyValues},
		"few of each":  {review(`{"spec":{` + strings.Repeat(`"containers":[`+strings.Repeat("{},", 999)+`{}],`, 20) + `"volumes":[]}}`), manyValues},
		"no pod":       {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","userInfo":{"groups":[` + fill("0") + `]}}}`, manyValues},
		"escapes":      {`{"\\\"":"\\","a":[` + fill("1") + `]}`, manyValues},
		"YAML":         {strings.Repeat("- \n", size/3), "the review is no JSON object"},
		"a YAML list":  {" [" + fill("{}") + "]", "the review is no JSON object"},
		"spaces":       {strings.Repeat(" ", size), "the review has no request"},
		"one string":   {review(`"` + strings.Repeat("x", size) + `"`), "read the pod: "},
		"no request":   {strings.Repeat("{", 1000), "invalid character"},
		"not the type": {review(`{"spec":{"containers":{"a":[1,2]}}}`), "unmarshal object into Go"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := (&world{}).handler(t, logr.Discard())
			var rec *httptest.ResponseRecorder
			allocated := bounded.Allocated(func() { rec = send(h, strings.NewReader(tc.body)) })
			assert.GreaterOrEqual(t, rec.Code, 400)
			assert.Contains(t, rec.Body.String(), tc.says)
			assert.Less(t, rec.Body.Len(), 1000)
			assert.Less(t, allocated, uint64(16*len(tc.body)+64<<10))
		})
	}
}

// TestTheCostliestReviewThatIsAnswered allocates a bounded amount, however short it is: once if the informers know
// the Service, and once more after the API server was asked. While it is asked, nothing of the pod is kept.
func TestTheCostliestReviewThatIsAnswered(t *testing.T) {
	for name, spec := range map[string]string{
		"mounts":     `{"containers":[{"volumeMounts":[` + strings.Repeat("{},", maxValues/2-50) + `{}]}]}`,
		"ports":      `{"containers":[{"ports":[` + strings.Repeat("null,", maxValues-100) + `{}]}]}`,
		"containers": `{"containers":[` + strings.Repeat("null,", maxValues-100) + `{}]}`,
	} {
		body := review(`{"metadata":{"labels":{"app":"web","commit":"12e45678"}},"spec":` + spec + `}`)
		for where, most := range map[string]uint64{"informers": 96 << 20, "API server": 2 * 64 << 20} {
			bare, _ := (&world{cached: knows(webService)}).bare(t, logr.Discard())
			if where == "API server" {
				bare.cached = func(context.Context, string) (choose.Known, bool) { return choose.Known{}, false }
			}
			heap, kept := heapInUse(), uint64(0)
			bare.live = func(context.Context, string) (choose.Known, error) {
				kept = max(heapInUse(), heap) - heap
				return knows(webService), nil
			}
			h := bare.serving()
			var rec *httptest.ResponseRecorder
			allocated := bounded.Allocated(func() { rec = send(h, strings.NewReader(body)) })
			assert.Equal(t, http.StatusOK, rec.Code, "%s: %.200s", name, rec.Body)
			t.Logf("%s, %s: %d bytes became %d, %d of them while the API server was asked", name, where, len(body), allocated, kept)
			assert.Less(t, allocated, most, name)
			assert.Less(t, kept, uint64(8*len(body)+1<<20), name)
		}
	}
}

// heapInUse returns the bytes of all objects that are reachable.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestALargePodIsRefused(t *testing.T) {
	h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
	pod := plainPod()
	for i := range 200 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: fmt.Sprint("c", i)})
	}
	_, _, resp := ask(t, h, reviewOf(t, pod))
	assert.False(t, resp.Allowed)
	assert.Contains(t, resp.Result.Message, `spec.containers: "201 containers": must be at most 100`)
}

// apiServer counts what is asked of it. Namespace shop is opted in, default is not.
type apiServer struct {
	client.Reader
	gets, lists atomic.Int32
}

func (s *apiServer) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.gets.Add(1)
	switch key.Name {
	case "shop":
		object.SetLabels(map[string]string{api.LabelInject: api.InjectEnabled})
	case "default":
	default:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	return nil
}

func (s *apiServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.lists.Add(1)
	if services, ok := list.(*corev1.ServiceList); ok {
		services.Items = []corev1.Service{*webService}
	}
	return nil
}

// nothing is what informers know that hold nothing.
type nothing struct{ client.Reader }

func (nothing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}
func (nothing) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// TestOnlyOptedInNamespacesAreListed: whoever reaches the port can ask about any namespace.
func TestOnlyOptedInNamespacesAreListed(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace   string
		gets, lists int32
		warns       string
	}{
		"a label younger than the informer": {"shop", 1, 2, ""},
		"no label":                          {"default", 1, 0, "servingcert: nothing is injected: the namespace does not have label servingcert.dev/inject=enabled"},
		"no namespace":                      {"none", 1, 0, "servingcert: nothing is injected: the namespace does not have label servingcert.dev/inject=enabled"},
		"no name of one":                    {"../secrets", 0, 0, "servingcert: nothing is injected: the namespace does not have label servingcert.dev/inject=enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{}
			lookup := NewLookup(nothing{}, server, func() bool { return true }, false)
			h, _ := (&world{}).bare(t, logr.Discard())
			h.cached, h.live = lookup.Cached, lookup.Live
			review := reviewOf(t, plainPod())
			review.Request.Namespace = tc.namespace
			_, _, resp := ask(t, h.serving(), review)
			assert.True(t, resp.Allowed)
			assert.Equal(t, tc.warns == "", len(resp.Patch) > 0)
			if tc.warns != "" {
				assert.Equal(t, []string{tc.warns}, resp.Warnings)
			}
			assert.Equal(t, []int32{tc.gets, tc.lists}, []int32{server.gets.Load(), server.lists.Load()}, "gets and lists")
		})
	}
}

// TestSettingsOfNamespacesAreTruncated: an informer holds no more than is read.
func TestSettingsOfNamespacesAreTruncated(t *testing.T) {
	kept, err := keepSettings(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationContainers: strings.Repeat("a,", 128<<10)}}})
	require.NoError(t, err)
	assert.LessOrEqual(t, len(kept.(*metav1.PartialObjectMetadata).Annotations[api.AnnotationContainers]), api.MaxAnnotation+1)
}

// longStrings are reviews of a pod with one long string, where it would be split, changed or repeated. A label has
// the amounts checked too.
func longStrings(size int) map[string]string {
	pod := func(spec string) string {
		return review(`{"metadata":{"labels":{"app":"web","commit":"12e45678"}},"spec":` + spec + `}`)
	}
	web := func(fields string) string {
		return pod(`{"containers":[{"name":"web","args":["serve"],"ports":[{"containerPort":8443}],` + fields + `}]}`)
	}
	proxy := func(arg string) string {
		return pod(`{"initContainers":[{"name":"servingcert-proxy","restartPolicy":"Always","args":["` + arg + `"]}],"containers":[{"name":"web","args":["serve"]}]}`)
	}
	return map[string]string{
		"argument of a proxy":    proxy(strings.Repeat(",", size)),
		"listener of a proxy":    proxy("--listen=" + strings.Repeat(",", size)),
		"address of a proxy":     proxy("--admin-address=:" + strings.Repeat("1", size)),
		"image":                  web(`"image":"` + strings.Repeat("/", size) + `"`),
		"tag of an image":        web(`"image":"prometheus:1-` + strings.Repeat("/", size) + `"`),
		"mount path":             web(`"volumeMounts":[{"name":"v","mountPath":"/etc/servingcert/` + strings.Repeat(" a", size/2) + `"}]`),
		"mount path to clean":    web(`"volumeMounts":[{"name":"v","mountPath":"//` + strings.Repeat("a", size) + `"}]`),
		"device path":            web(`"volumeDevices":[{"name":"v","devicePath":"//` + strings.Repeat("a", size) + `"}]`),
		"name of a container":    pod(`{"containers":[{"name":"` + strings.Repeat("<", size) + `","args":["serve"],"envFrom":[{}],"readinessProbe":{"tcpSocket":{"port":8443}}}]}`),
		"name of a port":         pod(`{"containers":[{"name":"web","args":["serve"],"ports":[{"name":"` + strings.Repeat("A", size) + `","containerPort":8443}]}]}`),
		"argument":               pod(`{"containers":[{"name":"web","args":["` + strings.Repeat("LOCALHOST:", size/10) + `"]}]}`),
		"variable":               web(`"env":[{"name":"A","value":"http://` + strings.Repeat("LOCALHOST:", size/10) + `"}]`),
		"name of a variable":     web(`"env":[{"name":"` + strings.Repeat("A", size) + `","value":"http://localhost:$A"}]`),
		"annotation":             review(`{"metadata":{"labels":{"app":"web","commit":"12e45678"},"annotations":{"servingcert.dev/` + strings.Repeat("a", size) + `":""}},"spec":{"containers":[{"name":"web","args":["serve"]}]}}`),
		"value of an annotation": review(`{"metadata":{"labels":{"app":"web","commit":"12e45678"},"annotations":{"servingcert.dev/containers":"` + strings.Repeat("a,", size/2) + `"}},"spec":{"containers":[{"name":"web"}]}}`),
	}
}

// copies is how many times as many bytes as a review has may be allocated for it: to receive and decode it
// takes four, and once more if the API server is asked in between.
const copies = 12

// TestLongStringsCostLittle: what a long string costs is in proportion to reading it, whether the informers know
// the Service or the API server is asked in between.
func TestLongStringsCostLittle(t *testing.T) {
	for name, body := range longStrings(512 << 10) {
		for _, unsynced := range []bool{false, true} {
			h, _ := (&world{cached: knows(webService), live: knows(webService), unsynced: unsynced}).handler(t, logr.Discard())
			var rec *httptest.ResponseRecorder
			allocated := bounded.Allocated(func() { rec = send(h, strings.NewReader(body)) })
			t.Logf("%s: %d times its length", name, allocated/uint64(len(body)))
			assert.Equal(t, http.StatusOK, rec.Code, "%s: %.300s", name, rec.Body)
			assert.Less(t, rec.Body.Len(), 64<<10, name)
			assert.Less(t, allocated, uint64(copies*len(body)), "%s, not in the informers: %v", name, unsynced)
		}
	}
}

// FuzzReview: whatever is sent is answered, by an HTTP error or a review, and costs a bounded
// amount beside a few times its length: for one decoding, or two if the API server is asked.
func FuzzReview(f *testing.F) {
	ordinary, err := json.Marshal(reviewOf(f, ordinaryPod()))
	require.NoError(f, err)
	f.Add(ordinary)
	f.Add([]byte(review(`{"spec":{"containers":[{},{},{}],"volumes":[null]}}`)))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":{"metadata":{"annotations":{"` + api.AnnotationContainers + `":"a,b"}}}}}`))
	for _, long := range longStrings(100 << 10) {
		f.Add([]byte(long))
	}
	h, _ := (&world{cached: knows(webService)}).handler(f, logr.Discard())
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec *httptest.ResponseRecorder
		allocated := bounded.Allocated(func() { rec = send(h, bytes.NewReader(data)) })
		if rec.Code != http.StatusOK && rec.Code < 400 {
			t.Fatalf("status %d", rec.Code)
		}
		if strings.Contains(rec.Body.String(), "internal error") {
			t.Fatalf("panic: %s", rec.Body)
		}
		counted := &body{ReadCloser: io.NopCloser(bytes.NewReader(data)), memory: newMemory()}
		_, _ = io.Copy(io.Discard, counted) // it fails if there are too many values
		if most := 1<<20 + 2*perValue*counted.values + copies*int64(len(data)); allocated > uint64(most) {
			t.Fatalf("%d bytes with %d values became %d", len(data), counted.values, allocated)
		}
	})
}

// TestWhatIsLoggedIsShort: whoever reaches the port chooses the names in a review, and can go away while the API
// server is asked.
func TestWhatIsLoggedIsShort(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	body := strings.Replace(review(`{}`), `"uid":"1"`, `"uid":"1","name":"`+long+`"`, 1)
	body = strings.Replace(body, `"shop"`, strconv.Quote(long), 1)
	for name, tc := range map[string]struct {
		world  world
		leaves bool
		lines  int
	}{
		"it leaves":     {world{err: context.Canceled}, true, 0},
		"no API server": {world{err: errors.New("list Services of namespace " + long)}, false, 1},
		"a panic":       {world{panics: true}, false, 1},
	} {
		for verbosity := range 2 {
			var lines []string
			h, _ := tc.world.bare(t, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: verbosity}))
			ctx, leave := context.WithCancel(t.Context())
			live := h.live
			h.live = func(ctx context.Context, namespace string) (choose.Known, error) {
				if tc.leaves {
					leave()
				}
				return live(ctx, namespace)
			}
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, Path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			h.serving().ServeHTTP(httptest.NewRecorder(), req)
			leave()
			if verbosity == 0 {
				assert.Len(t, lines, tc.lines, name)
			}
			for _, line := range lines {
				assert.Less(t, len(line), 16<<10, name)
			}
		}
	}
}
