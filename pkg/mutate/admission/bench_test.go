package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// ordinaryPod is what a ReplicaSet creates for a small web server, as the
// webhook sees it: with defaults filled in and the token's volume there.
func ordinaryPod() *corev1.Pod {
	yes, mode, expires, grace := true, int32(420), int64(3607), int64(30)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-6d4b75cb6d-", Namespace: "shop",
			Labels: map[string]string{"app": "web", "pod-template-hash": "6d4b75cb6d"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-6d4b75cb6d", UID: types.UID("5f0e5c1e-4f3c-4a8e-9b1e-1d2c3b4a5968"), Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: &mode,
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				},
			}}}},
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/shop/web:v1.4.2", Args: []string{"serve", "--port=8443"},
				Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443, Protocol: corev1.ProtocolTCP}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
				},
				VolumeMounts:           []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
				ReadinessProbe:         &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("https"), Scheme: "HTTPS"}}, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
			}},
			RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSClusterFirst,
			ServiceAccountName: "default", DeprecatedServiceAccount: "default", SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64)},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64)},
			},
			EnableServiceLinks: &yes, Priority: new(int32), PreemptionPolicy: new(corev1.PreemptionPolicy),
		},
	}
}

// hugePod has a megabyte of environment.
func hugePod() *corev1.Pod {
	pod := ordinaryPod()
	for i := range 2000 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%04d", i), Value: strings.Repeat("x", 480)})
	}
	return pod
}

func TestTheOrdinaryPatchIsSmall(t *testing.T) {
	pod := ordinaryPod()
	pod.Annotations = map[string]string{api.AnnotationMode: string(api.ModeArgs)}
	patch, report, err := mutate.Mutate(pod, knows(webService))
	require.NoError(t, err)
	require.Empty(t, report.Notes)
	ops, err := patch.JSON()
	require.NoError(t, err)
	t.Logf("%d operations, %d bytes", len(patch), len(ops))
	// The volume, the three variables, the two flags, label and status of the
	// contract are this long where no array of the user's is written again.
	require.LessOrEqual(t, len(ops), 1160)

	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}}
	patch, _, err = mutate.Mutate(pod, knows(webService))
	require.NoError(t, err)
	ops, err = patch.JSON()
	require.NoError(t, err)
	t.Logf("with variables of its own: %d operations, %d bytes", len(patch), len(ops))
}

// BenchmarkInject is the decision alone, without HTTP and JSON.
func BenchmarkInject(b *testing.B) {
	program := ordinaryPod()
	program.Spec.Containers[0].Image = "quay.io/prometheus/prometheus:v3.5.0"
	for name, pod := range map[string]*corev1.Pod{"ordinary": ordinaryPod(), "known program": program, "1MB": hugePod()} {
		b.Run(name, func(b *testing.B) {
			known := knows(webService)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := mutate.Mutate(pod, known); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChoose is the choice of the Secret alone, in a namespace with as many Services as
// the name says. All were created in the same second, as those of one chart often are.
func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			known := knows(webService)
			for i := 1; i < n; i++ {
				svc := webService.DeepCopy()
				svc.Name = fmt.Sprintf("other-%02d", i)
				svc.Spec.Selector = map[string]string{"app": svc.Name}
				known.Services = append(known.Services, svc)
			}
			pod := ordinaryPod()
			b.ReportAllocs()
			for b.Loop() {
				if c := choose.Secret(pod, api.PodRequest{}, known); c.Service != webService.Name {
					b.Fatal(c)
				}
			}
		})
	}
}

// unsent is a ResponseWriter that sends nothing.
type unsent struct{ header http.Header }

func (w unsent) Header() http.Header          { return w.header }
func (unsent) Write(data []byte) (int, error) { return len(data), nil }
func (unsent) WriteHeader(int)                {}

// BenchmarkServe is the handler alone, without HTTP and TLS: what of a review is ours.
func BenchmarkServe(b *testing.B) {
	for name, pod := range map[string]*corev1.Pod{"ordinary": ordinaryPod(), "1MB": hugePod()} {
		b.Run(name, func(b *testing.B) {
			h, _ := (&world{cached: knows(webService)}).handler(b, logr.Discard())
			data, err := json.Marshal(reviewOf(b, pod))
			require.NoError(b, err)
			body := bytes.NewReader(data)
			req := httptest.NewRequest(http.MethodPost, Path, body)
			req.Header.Set("Content-Type", "application/json")
			w := unsent{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(data)
				h.ServeHTTP(w, req)
			}
		})
	}
}

// allowed is controller-runtime's handler that answers allowed without work.
func allowed() http.Handler {
	return &admission.Webhook{
		Handler:        admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }),
		LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() },
	}
}

// BenchmarkReview is a review over HTTPS: by our handler, and by two floors, that
// answer allowed without work: controller-runtime's, and ours for a pod that has
// opted out.
func BenchmarkReview(b *testing.B) {
	w := &world{cached: knows(webService)}
	ours, _ := w.handler(b, logr.Discard())
	for _, size := range []struct {
		name string
		pod  *corev1.Pod
	}{{"ordinary", ordinaryPod()}, {"1MB", hugePod()}} {
		body, err := json.Marshal(reviewOf(b, size.pod))
		require.NoError(b, err)
		optedOut := size.pod.DeepCopy()
		optedOut.Labels[api.LabelInject] = api.InjectDisabled
		bodyOptedOut, err := json.Marshal(reviewOf(b, optedOut))
		require.NoError(b, err)
		for _, connections := range []int{1, 8} {
			for _, server := range []struct {
				name    string
				handler http.Handler
				body    []byte
			}{{"allowed", allowed(), body}, {"opted-out", ours, bodyOptedOut}, {"servingcert", ours, body}} {
				b.Run(fmt.Sprintf("%s/connections=%d/%s", size.name, connections, server.name), func(b *testing.B) {
					s := startPosting(b, server.handler, server.body, connections)
					b.SetBytes(int64(len(server.body)))
					b.ReportAllocs()
					b.ResetTimer()
					before := cpuTime(b)
					s.post(b, b.N)
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reviews/s")
					b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
				})
			}
		}
	}
}

// BenchmarkRatio is the rate of injected reviews beside that of controller-runtime's
// allowed: rounds of both alternate, so that what else the machine does slows both, and the
// ratios are the medians of the rounds. One operation is one round.
func BenchmarkRatio(b *testing.B) {
	const reviews = 200 // of each in a round
	w := &world{cached: knows(webService)}
	ours, _ := w.handler(b, logr.Discard())
	body, err := json.Marshal(reviewOf(b, ordinaryPod()))
	require.NoError(b, err)
	for _, connections := range []int{1, 8} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			floor, injected := startPosting(b, allowed(), body, connections), startPosting(b, ours, body, connections)
			timed := func(s *posting) (clock, cpu float64) {
				started, used := time.Now(), cpuTime(b)
				s.post(b, reviews)
				return time.Since(started).Seconds(), (cpuTime(b) - used).Seconds()
			}
			var ratios, cpuRatios, floors, rates []float64
			for b.Loop() {
				floorClock, floorCPU := timed(floor)
				clock, cpu := timed(injected)
				ratios, cpuRatios = append(ratios, floorClock/clock), append(cpuRatios, cpu/floorCPU)
				floors, rates = append(floors, reviews/floorClock), append(rates, reviews/clock)
			}
			b.ReportMetric(median(floors), "allowed/s")
			b.ReportMetric(median(rates), "injected/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(cpuRatios), "cpu-ratio")
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// posting is a handler behind HTTPS, and clients that post one body to it.
type posting struct {
	url    string
	client *http.Client
	body   []byte
	// connections is how many clients post at the same time.
	connections int
}

func startPosting(b *testing.B, handler http.Handler, body []byte, connections int) *posting {
	srv := httptest.NewUnstartedServer(handler)
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	srv.StartTLS()
	b.Cleanup(srv.Close)
	client := srv.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = connections
	s := &posting{srv.URL, client, body, connections}
	s.post(b, connections) // opens the connections
	return s
}

// post sends n reviews, and waits for the answers.
func (s *posting) post(b *testing.B, n int) {
	b.Helper()
	var clients errgroup.Group
	var sent atomic.Int64
	for range s.connections {
		clients.Go(func() error {
			for sent.Add(1) <= int64(n) {
				if err := post(s.client, s.url, s.body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		b.Fatal(err)
	}
}

// cpuTime returns what client and server have used of the processor: it says
// more than the clock where other work runs beside the benchmark.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func post(client *http.Client, url string, body []byte) error {
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Contains(answer, []byte(`"allowed":true`)) {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return err
}
