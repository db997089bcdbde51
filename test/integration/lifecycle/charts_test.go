package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/skip"
)

// served are the workloads behind the Services of charts, and those of which each pod was injected.
type served struct {
	mu                            sync.Mutex
	services, workloads, injected int
	missed                        []string
}

// TestChartsAreCarriedOut carries out the plans for the charts in a directory, a file for each chart as helm template prints
// it, in a namespace for each: of a Service, nothing changes but for additions. docs/adr/0081 has its figures.
func TestChartsAreCarriedOut(t *testing.T) {
	const variable = "SERVINGCERT_CHARTS"
	if os.Getenv(variable) == "" {
		skip.Now(t, variable+" names no directory with manifests of charts")
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv(variable), "*.yaml"))
	require.NoError(t, err)
	startInjecting(t)
	startNode(t)
	kubectl := harness.Kubectl(t)
	var sum served
	t.Run("each", func(t *testing.T) {
		for i, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
				t.Parallel()
				sum.carryOut(t, kubectl, file, i)
			})
		}
	})
	t.Logf("%d charts: %d Services; %d of %d workloads behind them are injected (%.1f %%); the others:\n%s", len(files), sum.services,
		sum.injected, sum.workloads, 100*float64(sum.injected)/float64(max(sum.workloads, 1)), strings.Join(sum.missed, "\n"))
	assert.NotZero(t, sum.injected)
}

// carryOut makes the objects of a chart, by the i-th way in turn, and carries out the plan for them.
func (s *served) carryOut(t *testing.T, kubectl, file string, i int) {
	namespace := fmt.Sprintf("chart-%d", i)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	require.NoError(t, admin.Create(t.Context(), ns))
	defer func() { assert.NoError(t, admin.Delete(t.Context(), ns)) }()
	way := [][]string{{"apply"}, {"apply", "--server-side"}, {"create"}, {"create", "--save-config"}, {"create", "--field-manager=helm"}}[i%5]
	cmd := exec.CommandContext(t.Context(), kubectl, append(way, "-f", "-", "-n", namespace, "--kubeconfig="+plane.KubeconfigFile())...)
	cmd.Stdin = objectsOf(t, file, namespace)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("not all objects of the chart were accepted: %s", out)
	}
	before := servicesIn(t, namespace)
	if len(before) == 0 {
		return
	}
	settled(t, namespace)
	out, code := planOf(t, "-n", namespace, "--apply", "--yes", "--timeout=1m")
	t.Logf("exit code %d: %s", code, out)
	after := servicesIn(t, namespace)
	for name, svc := range before {
		assertAdditions(t, svc, after[name])
	}
	s.add(file, before, settled(t, namespace))
}

// objectsOf returns those objects of a chart that Services lead to, and what their pods need, in the namespace.
func objectsOf(t *testing.T, file, namespace string) io.Reader {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var out bytes.Buffer
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		u := unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return &out
		}
		require.NoError(t, err)
		if !slices.Contains([]string{"v1 Service", "v1 ConfigMap", "v1 Secret", "v1 ServiceAccount", "apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet"},
			u.GetAPIVersion()+" "+u.GetKind()) {
			continue
		}
		u.SetNamespace(namespace)
		doc, err := yaml.Marshal(u.Object)
		require.NoError(t, err)
		out.WriteString("---\n" + string(doc))
	}
}

func servicesIn(t *testing.T, namespace string) map[string]*corev1.Service {
	var list corev1.ServiceList
	require.NoError(t, admin.List(t.Context(), &list, client.InNamespace(namespace)))
	out := map[string]*corev1.Service{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// settled returns the pods in the namespace once they have been the same for some seconds, and all of them run.
func settled(t *testing.T, namespace string) []corev1.Pod {
	var last []corev1.Pod
	names, since := "", time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var list corev1.PodList
		if err := admin.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		last = list.Items
		now := ""
		for i := range last {
			now += last[i].Name + string(last[i].Status.Phase)
		}
		if now != names {
			names, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second && !strings.Contains(now, string(corev1.PodPending)), nil
	})
	if !wait.Interrupted(err) { // some pods of a chart never run
		require.NoError(t, err)
	}
	return last
}

// add adds the workloads behind the Services.
func (s *served) add(file string, services map[string]*corev1.Service, pods []corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services += len(services)
	workloads := map[string]bool{}
	for _, svc := range services {
		for i := range pods {
			owner := metav1.GetControllerOf(&pods[i])
			if len(svc.Spec.Selector) == 0 || owner == nil || !labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pods[i].Labels)) {
				continue
			}
			all, seen := workloads[owner.Name]
			workloads[owner.Name] = (all || !seen) && pods[i].Labels[api.LabelInjected] == "true"
		}
	}
	for name, all := range workloads {
		if s.workloads++; all {
			s.injected++
		} else {
			s.missed = append(s.missed, filepath.Base(file)+" "+name)
		}
	}
}

// assertAdditions: the Service is as before but for annotations of ours, ports, and names for ports that had none.
func assertAdditions(t *testing.T, before, after *corev1.Service) {
	require.NotNil(t, after, before.Name)
	want, got := before.DeepCopy(), after.DeepCopy()
	for key := range got.Annotations {
		if _, had := want.Annotations[key]; !had && strings.HasPrefix(key, api.Domain+"/") {
			delete(got.Annotations, key)
		}
	}
	for _, p := range want.Spec.Ports {
		i := slices.IndexFunc(got.Spec.Ports, func(q corev1.ServicePort) bool { return q.Port == p.Port && q.Protocol == p.Protocol })
		require.GreaterOrEqual(t, i, 0, "port %d of %s", p.Port, before.Name)
		if p.Name == "" {
			p.Name = got.Spec.Ports[i].Name
		}
		assert.Equal(t, p, got.Spec.Ports[i], before.Name)
	}
	for _, q := range got.Spec.Ports {
		had := slices.ContainsFunc(want.Spec.Ports, func(p corev1.ServicePort) bool { return q.Port == p.Port && q.Protocol == p.Protocol })
		assert.True(t, had || strings.HasPrefix(q.TargetPort.StrVal, "sc-"), "port %d of %s was added, and leads to %s", q.Port, before.Name, &q.TargetPort)
	}
	want.Spec.Ports, got.Spec.Ports = nil, nil
	assert.Equal(t, want.Spec, got.Spec, before.Name)
	assert.Equal(t, want.Labels, got.Labels, before.Name)
	if len(want.Annotations)+len(got.Annotations) > 0 {
		assert.Equal(t, want.Annotations, got.Annotations, before.Name)
	}
}
