package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/preview"
	"github.com/servingcert/servingcert/test/skip"
)

// figures are what plan finds in many manifests.
type figures struct {
	served share // workloads behind Services, and those of them that can serve TLS
	// references of programs to Services that can serve TLS, unless they are in TLS, and those of them that need no change
	// of a program: all, those with a scheme for plaintext, and those to a ClusterIP by other workloads than its own.
	all, plain, ofClients share
	byHand                map[string]int
	broken                []string
}

// share is a part of some things.
type share struct{ part, all int }

func (s *share) add(in bool) {
	if s.all++; in {
		s.part++
	}
}

func (s share) String() string {
	return fmt.Sprintf("%d of %d (%.1f %%)", s.part, s.all, 100*float64(s.part)/float64(max(s.all, 1)))
}

// TestCharts prints the figures of the manifests in a directory, a file for each chart as helm template prints it. No call
// that a proxy takes over may be lost.
func TestCharts(t *testing.T) {
	const variable = "SERVINGCERT_CHARTS"
	files, err := filepath.Glob(filepath.Join(os.Getenv(variable), "*.yaml"))
	require.NoError(t, err)
	if os.Getenv(variable) == "" {
		files = []string{"testdata/shop.yaml"}
		skip.Part(t, "manifests of charts: "+variable+" names no directory with them")
	}
	f := figures{byHand: map[string]int{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		docs, err := preview.Parse(file, text)
		require.NoError(t, err)
		f.add(t, filepath.Base(file), docs)
	}
	t.Logf("%d charts: %s", len(files), f)
	assert.Empty(t, f.broken)
	if os.Getenv(variable) != "" {
		assert.GreaterOrEqual(t, f.served.part*100, f.served.all*94, "of the public charts, at least 94 %% were served")
	}
}

func (f figures) String() string {
	out := fmt.Sprintf("workloads behind Services that can serve TLS: %s\nreferences of programs to these that move without a change: %s; with a scheme for plaintext: %s; to a ClusterIP, by other workloads: %s; broken: %d",
		f.served, f.all, f.plain, f.ofClients, len(f.broken))
	var why []string
	for text, n := range f.byHand {
		why = append(why, fmt.Sprintf("%4d %s", n, text))
	}
	slices.Sort(why)
	slices.Reverse(why)
	return out + "\n" + strings.Join(why, "\n")
}

// add adds the figures of one chart.
func (f *figures) add(t *testing.T, chart string, docs []preview.Document) {
	p := OfManifests(docs, "", Options{})
	behind := map[string]bool{}
	for _, s := range p.Services {
		for _, w := range s.Workloads {
			id := s.Namespace + " " + w
			behind[id] = behind[id] || s.Way != WayNone && !slices.Contains(s.Without, w)
		}
		for _, r := range s.References {
			if r.Moves == "" || s.Way == WayNone || s.Way == WayCheck {
				continue
			}
			moved := r.Moves != MovesByHand
			if !moved {
				f.byHand[cause(r.ByHand)]++
			}
			f.all.add(moved)
			if r.Speaks == SpeaksPlaintext {
				f.plain.add(moved)
			}
			own := slices.ContainsFunc(r.programs(), func(id string) bool { return slices.Contains(s.Workloads, strings.TrimPrefix(id, s.Namespace+" ")) })
			if at(s.content, "spec")["clusterIP"] != "None" && !own {
				f.ofClients.add(moved)
			}
		}
	}
	for _, can := range behind {
		f.served.add(can)
	}
	for _, c := range p.Clients {
		if c.Connect != "" {
			f.broken = append(f.broken, lost(t, chart, p, c, docs)...)
		}
	}
}

// cause returns the beginning of why a program has to be changed, without names and numbers.
func cause(why string) string {
	if _, rest, ok := strings.Cut(why, ": "); ok {
		why = rest
	}
	why, _, _ = strings.Cut(why, " (")
	return strings.Join(strings.FieldsFunc(why, func(r rune) bool { return strings.ContainsRune(" 0123456789", r) }), " ")
}

// lost returns the calls of a client that its proxy takes over and does not make, in the pod that the webhook makes once
// the Services have their additions.
func lost(t *testing.T, chart string, p Plan, c Client, docs []preview.Document) (out []string) {
	var services []*corev1.Service
	for _, s := range p.Services {
		svc := &corev1.Service{}
		content := s.content
		if s.Patch != nil {
			content = s.Complete()
		}
		require.NoError(t, preview.Convert(content, svc))
		svc.Namespace, svc.Name = s.Namespace, s.Name
		services = append(services, svc)
	}
	b := New(services, nil, Options{})
	pod := podOf(t, docs, c)
	known := b.known(c.Namespace, slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return svc.Namespace != c.Namespace })...)
	known.ProxyImage = anyImage
	patch, report, err := mutate.Mutate(pod, known)
	require.NoError(t, err)
	for _, n := range report.Notes {
		if strings.Contains(n.String(), api.AnnotationConnect) {
			out = append(out, chart+" "+c.Workload+": "+n.String())
		}
	}
	proxy, _ := api.ProxyOf(injected(t, pod, patch))
	for _, s := range p.Services {
		if !slices.Contains(c.Services, s.Namespace+"/"+s.Name) {
			continue
		}
		for _, r := range s.References {
			if !slices.Contains(r.programs(), c.Namespace+" "+c.Workload) || r.Port == 0 {
				continue
			}
			if !slices.ContainsFunc(proxy.Connects, func(to api.ProxyConnect) bool {
				return to.Host == s.Name+"."+s.Namespace+".svc" && to.Port == r.Port
			}) {
				out = append(out, fmt.Sprintf("%s %s: %s", chart, c.Workload, r.Address))
			}
		}
	}
	return out
}

// podOf returns a pod of the client with the annotation.
func podOf(t *testing.T, docs []preview.Document, c Client) *corev1.Pod {
	t.Helper()
	for _, d := range docs {
		for _, w := range d.Workloads(corev1.NamespaceDefault) {
			if w.Pod == nil || w.Kind+"/"+w.Name != c.Workload || w.Namespace != c.Namespace {
				continue
			}
			pod := w.Pod.DeepCopy()
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[api.AnnotationConnect] = c.Connect
			return pod
		}
	}
	require.Fail(t, "no workload "+c.Workload)
	return nil
}

// injected returns the pod with the changes of the webhook.
func injected(t *testing.T, pod *corev1.Pod, patch any) *corev1.Pod {
	t.Helper()
	operations, err := json.Marshal(patch)
	require.NoError(t, err)
	decoded, err := evanphx.DecodePatch(operations)
	require.NoError(t, err)
	before, err := json.Marshal(pod)
	require.NoError(t, err)
	after, err := decoded.Apply(before)
	require.NoError(t, err)
	out := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, out))
	return out
}
