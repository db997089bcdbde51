package mutate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/commandline"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// failer is what testing.TB and rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// pass runs one pass over a pod and checks what must hold for any pod: the patch
// applies, a second pass changes and reports nothing new, and everything of the user is
// still there, in order.
func pass(t failer, pod *corev1.Pod, known choose.Known) *corev1.Pod {
	t.Helper()
	patch, report, err := Mutate(pod, known)
	if checkNoPodKeys(t, pod, known, report, err); err != nil {
		return pod // denied
	}
	after := patched(t, pod, patch)
	checkServes(t, pod, after, known, report)
	checkSources(t, pod, after, known, report)
	checkIdentity(t, pod, after, known, report)
	checkKept(t, pod, after)
	checkSound(t, pod, after)
	checkDrift(t, after, known)

	again, second, err := Mutate(after, known)
	if err != nil || len(again) != 0 || !reflect.DeepEqual(report, second) {
		ops, _ := again.JSON()
		t.Fatalf("a second pass differs: %v\n%s\nfirst  %+v\nsecond %+v", err, ops, report, second)
	}
	return after
}

// checkDrift fails if a pod that was injected now does not connect to Services as a new one would, or if the sketch of it
// differs.
func checkDrift(t failer, after *corev1.Pod, known choose.Known) {
	t.Helper()
	if drift := choose.Drift(after, known); len(after.Spec.Containers) > 0 && len(drift) > 0 {
		t.Fatalf("a pod that was injected now differs from a new one: %v", drift)
	}
	sketch := choose.Sketch(after)
	sketch.Labels, sketch.Namespace, sketch.Name = after.Labels, after.Namespace, after.Name
	var ports []corev1.ContainerPort
	for _, c := range api.RunningContainers(after) {
		ports = append(ports, c.Ports...)
	}
	sketch.Spec.Containers = append(sketch.Spec.Containers, corev1.Container{Name: "c", Ports: ports})
	request, err := api.ParsePod(&after.ObjectMeta)
	if err != nil || api.Exempt(after, request) != "" {
		return
	}
	hosts := func(pod *corev1.Pod) (out []string) {
		for _, target := range choose.Secret(pod, request, known).Connect {
			out = append(out, fmt.Sprint(target))
		}
		return out
	}
	if a, b := hosts(after), hosts(sketch); !slices.Equal(a, b) {
		t.Fatalf("a pod like this connects to %v, and one like its sketch to %v", a, b)
	}
}

// checkServes fails if a pod that no traffic can reach has got a certificate because of
// a Service, or if one that can be reached was left out.
func checkServes(t failer, pod, after *corev1.Pod, known choose.Known, report Report) {
	t.Helper()
	selected, reached := false, false
	for _, svc := range known.Services {
		alone := choose.Secret(pod, api.PodRequest{}, choose.Known{Services: []*corev1.Service{svc}})
		if alone.By == choose.ByService || alone.NotServing { // it asks, and selects the pod
			selected, reached = true, reached || api.ReachOf(pod).Serves(svc)
		}
	}
	request, _ := api.ParsePod(&pod.ObjectMeta)
	want := selected && !reached && request.SecretName == "" && NeedsLookup(pod, request) && known.HostFiles == "" // a static pod is given what it is to get
	if got := slices.Contains(report.Reasons(), reasons.NotServing); got != want {
		t.Fatalf("NotServing: %v, want %v", got, want)
	}
	in := newInput(pod, request, choose.Secret(pod, request, known))
	if want && !in.asksForTrust() && !in.asksForIdentity() && !reflect.DeepEqual(normal(t, pod).Spec, after.Spec) {
		t.Fatalf("a pod that does not serve was changed: %+v", after.Spec)
	}
}

// checkNoPodKeys fails if a pod has got a key of its own in a cluster without such kubelets,
// or if another was refused for that.
func checkNoPodKeys(t failer, pod *corev1.Pod, known choose.Known, report Report, err error) {
	t.Helper()
	if none := (*NoPodKeysError)(nil); errors.As(err, &none) {
		known.NoPodKeys = false
		if _, report, err := Mutate(pod, known); err != nil || !report.PodKey {
			t.Fatalf("refused for a key that it does not ask for: %+v %v", report, err)
		}
		return
	}
	if known.NoPodKeys && report.PodKey && report.Injected() && known.HostFiles == "" {
		t.Fatalf("kubelets make no keys, and the pod has got a volume for one: %+v", report)
	}
}

// offeredKeys are the kinds of keys that the API server allows in a podCertificate source
// (validateProjectionSources in pkg/apis/core/validation).
var offeredKeys = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

// checkSources fails if the volume of an injected pod is not complete: the pair from one
// source, and the bundle from the configured source. Other content of the pod's own
// volumes belongs to its owner: the API server allows an empty source.
func checkSources(t failer, pod, after *corev1.Pod, known choose.Known, report Report) {
	t.Helper()
	hasMore := func(c ContainerReport) bool {
		return slices.ContainsFunc(c.parts, func(p part) bool { return p != partTrust && p != partIdentity })
	}
	if !slices.ContainsFunc(report.Containers, hasMore) || report.By == choose.ByNothing {
		return
	}
	request, _ := api.ParsePod(&pod.ObjectMeta)
	client := newInput(pod, request, choose.Secret(pod, request, known)).onlyProxied()
	if _, proxied := api.ProxyOf(after); client && !proxied {
		return // it has the bundle alone
	}
	if known.HostFiles != "" {
		checkHostFiles(t, pod, after, known)
		return
	}
	whole := slices.ContainsFunc(after.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			if !report.PodKey {
				return s.Secret != nil && s.Secret.Name == report.Secret
			}
			p := s.PodCertificate
			return p != nil && p.SignerName == api.SignerName && p.KeyPath == "tls.key" && p.CertificateChainPath == "tls.crt" &&
				slices.Contains(offeredKeys, p.KeyType) && (p.MaxExpirationSeconds == nil || *p.MaxExpirationSeconds >= 3600 && *p.MaxExpirationSeconds <= 91*86400)
		})
	})
	if !whole {
		t.Fatalf("no volume has the pair: %+v", after.Spec.Volumes)
	}
	for _, v := range after.Spec.Volumes {
		own := slices.ContainsFunc(pod.Spec.Volumes, func(o corev1.Volume) bool { return o.Name == v.Name })
		if v.Projected == nil || own {
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case reflect.DeepEqual(s, corev1.VolumeProjection{}):
				t.Fatalf("a source without content: %+v", v)
			case s.ClusterTrustBundle != nil && *s.ClusterTrustBundle.SignerName == api.ClientSignerName: // there is no other object
			case s.ClusterTrustBundle != nil && !known.TrustBundle, known.TrustBundle && s.ConfigMap != nil && !hasPublicRoots(s):
				t.Fatalf("the bundle is from the other object: %+v", v)
			}
		}
	}
}

// checkIdentity fails unless exactly those containers have got the identity that have it according to the
// report, and the volume is there exactly if one of them has. A pod that brings the volume is not checked.
func checkIdentity(t failer, pod, after *corev1.Pod, known choose.Known, report Report) {
	t.Helper()
	nameIn := func(p *corev1.Pod) string {
		i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Projected != nil && reflect.DeepEqual(v.Projected.Sources, volume.IdentityFolder(cmp.Or(known.TrustDomain, "example.com")))
		})
		if i < 0 {
			return ""
		}
		return p.Spec.Volumes[i].Name
	}
	if nameIn(pod) != "" {
		return
	}
	name, some := nameIn(after), false
	for _, c := range slices.Concat(after.Spec.InitContainers, after.Spec.Containers) {
		i := slices.IndexFunc(report.Containers, func(r ContainerReport) bool { return r.Name == c.Name })
		want := i >= 0 && slices.Contains(report.Containers[i].parts, partIdentity)
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return name != "" && m.Name == name })
		if want != (at >= 0) {
			t.Fatalf("container %s should have the identity: %v: %+v", c.Name, want, c.VolumeMounts)
		}
		some = some || want
		own, _ := containerNamed(pod, c.Name)
		v := indexEnv(&c, api.EnvIdentityFolder)
		if want && v >= 0 && (own.Container == nil || indexEnv(own.Container, api.EnvIdentityFolder) < 0) && c.Env[v].Value != c.VolumeMounts[at].MountPath {
			t.Fatalf("container %s: %s leads elsewhere: %+v", c.Name, c.Env[v].Value, c.VolumeMounts)
		}
	}
	if some != (name != "") || some && (known.TrustDomain == "" || known.HostFiles != "") {
		t.Fatalf("volume %q, trust domain %q, %q", name, known.TrustDomain, known.HostFiles)
	}
}

// hasPublicRoots reports whether the source has the files that only the ConfigMap has.
func hasPublicRoots(s corev1.VolumeProjection) bool {
	return len(s.ConfigMap.Items) == 2 && s.ConfigMap.Items[0].Key == formats.PublicBundleFile && s.ConfigMap.Items[1].Key == formats.PublicTruststoreFile
}

// checkHostFiles fails if a static pod has no volume with the directory of its node, or has got
// one that refers to an object of the API, which no kubelet would run.
func checkHostFiles(t failer, pod, after *corev1.Pod, known choose.Known) {
	t.Helper()
	found := false
	for _, v := range after.Spec.Volumes {
		own := slices.ContainsFunc(pod.Spec.Volumes, func(o corev1.Volume) bool { return o.Name == v.Name })
		if v.HostPath == nil && !own {
			t.Fatalf("a static pod got volume %+v", v)
		}
		found = found || v.HostPath != nil && v.HostPath.Path == path.Join(known.HostFiles, pod.Name)
	}
	if !found {
		t.Fatalf("no volume has the node's directory: %+v", after.Spec.Volumes)
	}
}

func patched(t failer, pod *corev1.Pod, patch jsonpatch.Patch) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatalf("%v", err)
	}
	ops, err := patch.JSON()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if ops != nil {
		decoded, err := evanphx.DecodePatch(ops)
		if err != nil {
			t.Fatalf("%v: %s", err, ops)
		}
		if raw, err = decoded.Apply(raw); err != nil {
			t.Fatalf("%v: %s", err, ops)
		}
	}
	after := &corev1.Pod{}
	if err := json.Unmarshal(raw, after); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return after
}

// checkKept fails if something of before is missing in after, in another order, or
// changed, except for what the webhook may change.
func checkKept(t failer, before, after *corev1.Pod) {
	t.Helper()
	b, a := normal(t, before), normal(t, after)
	if proxy, ok := api.ProxyOf(a); ok && len(proxy.Connects) > 0 {
		if old, had := api.ProxyOf(b); had && len(old.Connects) == 0 { // one that begins to connect is moved
			if proxy.Index != 0 {
				t.Fatalf("the proxy connects, and has index %d", proxy.Index)
			}
			b.Spec.InitContainers = slices.Insert(slices.Delete(slices.Clone(b.Spec.InitContainers), old.Index, old.Index+1), 0, *old.Container.DeepCopy())
		}
	}
	if proxy, ok := api.ProxyOf(a); ok && proxy.Index < len(b.Spec.InitContainers) && b.Spec.InitContainers[proxy.Index].Name == api.ProxyContainer && b.Spec.InitContainers[proxy.Index].RestartPolicy == nil {
		b.Spec.InitContainers[proxy.Index].RestartPolicy = proxy.RestartPolicy // which another webhook had removed
	}
	checkProxy(t, b, a)
	subsequence(t, "volumes", b.Spec.Volumes, a.Spec.Volumes)
	a.Spec.Volumes = b.Spec.Volumes
	for _, pair := range [][2][]corev1.Container{{b.Spec.Containers, a.Spec.Containers}, {b.Spec.InitContainers, a.Spec.InitContainers}} {
		if len(pair[0]) != len(pair[1]) {
			t.Fatalf("%d containers became %d", len(pair[0]), len(pair[1]))
		}
		for i := range pair[0] {
			from, to := &pair[0][i], &pair[1][i]
			subsequence(t, "env", from.Env, to.Env)
			subsequence(t, "command", from.Command, to.Command)
			subsequence(t, "args", from.Args, to.Args)
			subsequence(t, "volumeMounts", from.VolumeMounts, to.VolumeMounts)
			to.Env, to.Command, to.Args, to.VolumeMounts = from.Env, from.Command, from.Args, from.VolumeMounts
			for _, c := range []*corev1.Container{from, to} {
				forgetSchemes(c)
				c.TerminationMessagePolicy = ""
			}
		}
	}
	for _, meta := range []*metav1.ObjectMeta{&b.ObjectMeta, &a.ObjectMeta} {
		delete(meta.Labels, api.LabelInjected)
		maps.DeleteFunc(meta.Annotations, func(key, _ string) bool {
			return key == api.AnnotationStatus || key == api.AnnotationAdmits || strings.HasPrefix(key, api.AnnotationFilePrefix)
		})
	}
	b, a = normal(t, b), normal(t, a)
	if !reflect.DeepEqual(b, a) {
		t.Fatalf("changed what is the user's:\nbefore %+v\nafter  %+v", b, a)
	}
}

// checkProxy fails if a proxy that was added is not complete, or if another container has its
// key. It removes the proxy's parts from after.
func checkProxy(t failer, before, after *corev1.Pod) {
	t.Helper()
	proxy, ok := api.ProxyOf(after)
	if !ok {
		return
	}
	subsequence(t, "imagePullSecrets", before.Spec.ImagePullSecrets, after.Spec.ImagePullSecrets)
	unique(t, "pull secret", before.Spec.ImagePullSecrets, after.Spec.ImagePullSecrets, func(r corev1.LocalObjectReference) string { return r.Name })
	after.Spec.ImagePullSecrets = before.Spec.ImagePullSecrets
	old, had := api.ProxyOf(before)
	checkConnects(t, before, after, proxy, old)
	known := map[string]bool{}
	for _, l := range proxy.Listeners {
		if known[l.Name] {
			t.Fatalf("two listeners %s", l.Name)
		}
		known[l.Name] = true
		own := had && slices.Contains(old.Listeners, l)
		declared := 0
		for i := range after.Spec.Containers {
			c := &after.Spec.Containers[i]
			c.Ports = slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool {
				is := p.Name == l.Name && p.ContainerPort == l.Port
				if is {
					declared++
				}
				return is && (i >= len(before.Spec.Containers) || !slices.Contains(before.Spec.Containers[i].Ports, p))
			})
			if !own && declares(api.ContainerRef{Container: c}, l.Port) {
				t.Fatalf("the proxy listens on port %d of container %s", l.Port, c.Name)
			}
		}
		if !own && declared != 1 {
			t.Fatalf("%d containers declare %s", declared, l.Name)
		}
		if said, ok := before.Annotations[api.AnnotationProxyProtocol]; ok && !own {
			asked := slices.Contains(strings.FieldsFunc(said, func(r rune) bool { return r == ',' || r == ' ' }), strconv.Itoa(int(l.Upstream)))
			if l.V2 != asked {
				t.Fatalf("%s: %q, and the proxy has %s", api.AnnotationProxyProtocol, said, l)
			}
		}
		if l.Port == l.Upstream {
			t.Fatalf("the proxy forwards to itself: %s", l)
		}
	}
	if had {
		extended := after.Spec.InitContainers[proxy.Index].Args
		subsequence(t, "args", old.Args, extended)
		after.Spec.InitContainers[proxy.Index].Args = old.Args
		return
	}
	checkNewProxy(t, after, proxy)
	after.Spec.InitContainers = slices.Delete(after.Spec.InitContainers, proxy.Index, proxy.Index+1)
}

// checkConnects fails unless what was added to the hosts file and the sysctls is for the proxy's new
// connects. It removes that from after.
func checkConnects(t failer, before, after *corev1.Pod, proxy, old api.Proxy) {
	t.Helper()
	subsequence(t, "hostAliases", before.Spec.HostAliases, after.Spec.HostAliases)
	subsequence(t, "connects", old.Connects, proxy.Connects)
	led, names := map[string]bool{}, map[string]bool{}
	for _, a := range before.Spec.HostAliases {
		for _, name := range a.Hostnames {
			names[name] = true
		}
	}
	for _, a := range after.Spec.HostAliases[len(before.Spec.HostAliases):] {
		if led[a.IP] && a.IP != "::1" || slices.ContainsFunc(a.Hostnames, func(name string) bool { return names[name] }) {
			t.Fatalf("names with two addresses, or an address with two entries: %+v", after.Spec.HostAliases)
		}
		led[a.IP] = true
	}
	for _, c := range proxy.Connects[len(old.Connects):] {
		if !led[c.Address] || slices.ContainsFunc(before.Spec.Containers, func(b corev1.Container) bool { return declares(api.ContainerRef{Container: &b}, c.Port) }) {
			t.Fatalf("nothing leads to %s, or a container listens there", c)
		}
	}
	if len(proxy.Connects) > len(old.Connects) && len(led) > len(proxy.Connects) || len(proxy.Connects) == len(old.Connects) && len(led) > 0 {
		t.Fatalf("names lead to where the proxy does not listen: %+v", after.Spec.HostAliases)
	}
	after.Spec.HostAliases = before.Spec.HostAliases
	if c := after.Spec.SecurityContext; c != nil && len(c.Sysctls) > 0 {
		last := len(c.Sysctls) - 1
		had := before.Spec.SecurityContext
		if had == nil || len(had.Sysctls) == last {
			if c.Sysctls[last] != (corev1.Sysctl{Name: connect.UnprivilegedPorts, Value: "0"}) || len(led) == 0 {
				t.Fatalf("a sysctl was added: %+v", c.Sysctls)
			}
			c.Sysctls = c.Sysctls[:last]
		}
		if had == nil {
			after.Spec.SecurityContext = nil
		}
	}
}

func checkNewProxy(t failer, after *corev1.Pod, proxy api.Proxy) {
	t.Helper()
	want := len(after.Spec.InitContainers) - 1
	if len(proxy.Connects) > 0 {
		want = 0
	}
	if proxy.Index != want || proxy.Image == "" || after.Spec.HostNetwork {
		t.Fatalf("the proxy is not the last of the init containers, or the first if they may call through it, or has no place in the pod: %+v", after.Spec)
	}
	at := map[string]string{}
	for _, m := range proxy.VolumeMounts {
		at[m.MountPath] = m.Name
		for _, c := range slices.Concat(after.Spec.Containers, after.Spec.InitContainers[:proxy.Index], after.Spec.InitContainers[proxy.Index+1:]) {
			if slices.ContainsFunc(c.VolumeMounts, func(o corev1.VolumeMount) bool { return o.Name == m.Name }) {
				t.Fatalf("container %s has volume %s of the proxy", c.Name, m.Name)
			}
		}
	}
	mounts := map[string]bool{"/var/run/secrets/kubernetes.io/serviceaccount": true}
	if len(proxy.Listeners) > 0 {
		mounts["/etc/servingcert"] = true
	}
	if len(proxy.Connects) > 0 {
		mounts["/etc/servingcert-ca"] = true
	}
	if slices.Contains(proxy.Args, "--clients=/etc/servingcert-clients/clients") {
		mounts["/etc/servingcert-clients"] = true
	}
	if len(at) != len(mounts) || slices.ContainsFunc(slices.Collect(maps.Keys(mounts)), func(path string) bool { return at[path] == "" }) {
		t.Fatalf("the proxy lacks the pair or the roots, or has the token, or more: %+v", proxy.VolumeMounts)
	}
}

// normal returns a copy through JSON, where nil and empty are the same.
func normal(t failer, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	return patched(t, pod, nil)
}

func forgetSchemes(c *corev1.Container) {
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p != nil && p.HTTPGet != nil {
			p.HTTPGet.Scheme = ""
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil && h.HTTPGet != nil {
			h.HTTPGet.Scheme = ""
		}
	}
}

func subsequence[T any](t failer, what string, part, whole []T) {
	t.Helper()
	i := 0
	for _, v := range whole {
		if i < len(part) && reflect.DeepEqual(part[i], v) {
			i++
		}
	}
	if i < len(part) {
		t.Fatalf("%s: %+v is no longer in, or not in its place in %+v", what, part[i], whole)
	}
}

// checkSound fails if the patched pod violates a rule of the API server that the
// original did not.
func checkSound(t failer, before, after *corev1.Pod) {
	t.Helper()
	unique(t, "volume name", before.Spec.Volumes, after.Spec.Volumes, func(v corev1.Volume) string { return v.Name })
	for i := range after.Spec.Containers {
		unique(t, "mount path", before.Spec.Containers[i].VolumeMounts, after.Spec.Containers[i].VolumeMounts, func(m corev1.VolumeMount) string { return path.Clean(m.MountPath) })
		unique(t, "port name", named(before.Spec.Containers[i].Ports), named(after.Spec.Containers[i].Ports), func(p corev1.ContainerPort) string { return p.Name })
		unique(t, "variable", before.Spec.Containers[i].Env, after.Spec.Containers[i].Env, func(e corev1.EnvVar) string { return e.Name })
		for _, m := range after.Spec.Containers[i].VolumeMounts[len(before.Spec.Containers[i].VolumeMounts):] {
			if !slices.ContainsFunc(after.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Fatalf("mount of volume %q, which is not there", m.Name)
			}
		}
	}
	size := func(p *corev1.Pod) (n int) {
		for k, v := range p.Annotations {
			n += len(k) + len(v)
		}
		return n
	}
	const limit = 256 << 10
	if size(before) <= limit && size(after) > limit {
		t.Fatalf("%d bytes of annotations", size(after))
	}
}

// named returns the ports that have a name.
func named(ports []corev1.ContainerPort) []corev1.ContainerPort {
	return slices.DeleteFunc(slices.Clone(ports), func(p corev1.ContainerPort) bool { return p.Name == "" })
}

func unique[T any](t failer, what string, before, after []T, key func(T) string) {
	t.Helper()
	count := func(list []T) (duplicates int) {
		seen := map[string]bool{}
		for _, v := range list {
			if seen[key(v)] {
				duplicates++
			}
			seen[key(v)] = true
		}
		return duplicates
	}
	if count(after) > count(before) {
		t.Fatalf("a %s occurs twice: %+v", what, after)
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod, known := drawPod(t), drawKnown(t)
		first := pass(t, pod, known)
		foreign := drawForeign(t, first)
		pass(t, foreign, known) // with another's changes in between: before, after, between
	})
}

// TestReplacingIsDoneOnce: a replacer of the standard library does the same, also where what a
// placeholder stands for, or the text around it, looks like one.
func TestReplacingIsDoneOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := []string{"{cert}", "{key}", "{ca}", "{combined}", "{dir}", "{", "}", "{x}", "{ ", "a", "/"}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "text"), "")
		dir := rapid.SampledFrom([]string{"/etc/servingcert", "/{key}", "/"}).Draw(t, "dir")
		in := &input{settings: api.Settings{MountPath: dir}}
		want := strings.NewReplacer("{cert}", in.file("tls.crt"), "{key}", in.file("tls.key"), "{ca}", in.file("ca.crt"), "{combined}", in.file("tls-combined.pem"), "{dir}", dir).Replace(text)
		if got := in.replace(text); got != want {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}

// A wrapper without its program: appended arguments must not be taken for the program.
func TestWrappersOfNothing(t *testing.T) {
	for _, name := range commandline.Wrappers() {
		for _, image := range []string{"key", "combined", "files", "example.com/web"} {
			for _, rest := range [][]string{{}, {"--"}, {"-x"}, {"-x", "--"}, {"10"}, {"A=b"}} {
				line := append([]string{name}, rest...)
				for _, c := range []corev1.Container{{Args: line}, {Command: line}, {Command: []string{"tini"}, Args: line}} {
					c.Name, c.Image = "web", image
					t.Log(image, c.Command, c.Args)
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
					pass(t, pod, choose.Known{Config: choose.Config{Programs: &fewPrograms}})
				}
			}
		}
	}
}

func FuzzInject(f *testing.F) {
	for _, in := range goldens(f) {
		data, err := os.ReadFile(in)
		if err != nil {
			f.Fatal(err)
		}
		s := readScene(f, data)
		service := []byte("{}")
		if len(s.known.Services) > 0 {
			if service, err = json.Marshal(s.known.Services[0]); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(s.pod, service, s.known.ConventionalSecret, false, s.known.TrustBundle)
		if pods := withPodKeys(s.known); len(pods.Services) > 0 {
			if service, err = json.Marshal(pods.Services[0]); err != nil {
				f.Fatal(err)
			}
			f.Add(s.pod, service, s.known.ConventionalSecret, false, true)
		}
	}
	f.Fuzz(func(t *testing.T, podJSON, serviceJSON []byte, conventional, noPodKeys, trustBundle bool) {
		pod, svc := &corev1.Pod{}, &corev1.Service{}
		if json.Unmarshal(podJSON, pod) != nil || json.Unmarshal(serviceJSON, svc) != nil {
			return
		}
		pass(t, pod, choose.Known{Services: []*corev1.Service{svc}, ConventionalSecret: conventional, NoPodKeys: noPodKeys, Config: choose.Config{TrustBundle: trustBundle, ProxyImage: proxyImage}})
	})
}

// The generators draw from few words, so that things collide.

var (
	words    = rapid.SampledFrom([]string{"web", "proxy", "servingcert", "servingcert-2", "data", "servingcert-proxy", "servingcert-identity"})
	envNames = rapid.SampledFrom([]string{"A", "GF_SERVER_PROTOCOL", "GF_SERVER_CERT_FILE", "SSL_CERT_FILE", "JAVA_TOOL_OPTIONS", api.EnvCertFile, api.EnvKeyFile, api.EnvCAFile, api.EnvIdentityFolder, "PATH"})
	paths    = rapid.SampledFrom([]string{"/etc/servingcert", "/etc/servingcert/", "/etc", "/etc/servingcert/deep", "/data", "/data/tls", "/etc/servingcert-trust", "/etc/servingcert-identity", "/tmp", "/tmp/certs", "/tmp/certs/deep"})
	tokens   = rapid.SampledFrom([]string{
		"serve", "--", "sh", "/bin/bash", "-c", "-ec", "exec /web --x", "tini", "dumb-init", "env", "A=b", "-o", "pipefail", "timeout", "10",
		"grafana", "prometheus", "--web.config.file=/etc/servingcert/web-config.yml", "--tls", "--tlscert=/x", "nats-server",
		"--tls-cert-file", "--tls-cert-file=/etc/servingcert/tls.crt", "-tls-private-key-file=/etc/servingcert/tls.key", "$(A)", "$(TLS_CERT_FILE)", "--port=1", "busybox",
		"/manager", "--one", "--two=2", "--two", "--certs",
		"python3", "-m", "uv", "run", "-m=x", "http://localhost:8443/", "--self=http://127.0.0.1:8442",
	})
	ports  = rapid.OneOf(rapid.Int32Range(8442, 8444), rapid.Int32Range(15443, 15446))
	values = rapid.SampledFrom([]string{"", "x", "/etc/servingcert/tls.crt", "--tls-cert-file=/x", "$(TLS_CERT_FILE)"})
)

// resources are those of containers of each quality of service class.
var resources = func() []corev1.ResourceRequirements {
	some := corev1.ResourceList{"cpu": resource.MustParse("1")}
	all := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	return []corev1.ResourceRequirements{{}, {Requests: some}, {Limits: some}, {Requests: some, Limits: all}, {Requests: all, Limits: all}}
}()

func drawContainer(t *rapid.T, name string) corev1.Container {
	c := corev1.Container{
		Name:    name,
		Image:   rapid.SampledFrom([]string{"example.com/web", "grafana/grafana:12", "prom/prometheus", "nats:2", "nginx", "prom/prometheus:v2.1", "prom/prometheus:v2.50", "key", "combined", "files"}).Draw(t, "image"),
		Command: rapid.SliceOfN(tokens, 0, 4).Draw(t, "command"),
		Args:    rapid.SliceOfN(tokens, 0, 4).Draw(t, "args"),
	}
	for _, n := range rapid.SliceOfNDistinct(envNames, 0, 4, rapid.ID).Draw(t, "env") {
		c.Env = append(c.Env, corev1.EnvVar{Name: n, Value: values.Draw(t, "value")})
	}
	for _, p := range rapid.SliceOfNDistinct(paths, 0, 3, path.Clean).Draw(t, "mounts") {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: words.Draw(t, "volume"), MountPath: p, ReadOnly: rapid.Bool().Draw(t, "ro")})
	}
	for _, p := range rapid.SliceOfNDistinct(ports, 0, 2, rapid.ID).Draw(t, "ports") {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: rapid.SampledFrom([]string{"", "https", "http", "http", "sc-tls-8443"}).Draw(t, "portName"), ContainerPort: p, Protocol: rapid.SampledFrom([]corev1.Protocol{"", "TCP", "UDP"}).Draw(t, "protocol")})
	}
	c.Resources = rapid.SampledFrom(resources).Draw(t, "resources")
	if rapid.Bool().Draw(t, "probe") {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(ports.Draw(t, "probePort"))}}}
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("https"), Scheme: "HTTP"}}}
	}
	if rapid.Bool().Draw(t, "exec probe") {
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"wget", "localhost:8443/live"}}}}
	}
	if rapid.Bool().Draw(t, "envFrom") {
		c.EnvFrom = []corev1.EnvFromSource{{Prefix: rapid.SampledFrom([]string{"x", "SSL_", ""}).Draw(t, "prefix")}}
	}
	return c
}

func drawPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"app", api.LabelInjected}), rapid.SampledFrom([]string{"web", "true"}), 0, 2).Draw(t, "labels")
	pod.Annotations = map[string]string{}
	for _, a := range []struct {
		key     string
		allowed []string
	}{
		{api.AnnotationSecretName, []string{"web-tls", "Bad"}},
		{api.AnnotationContainers, []string{"web", "proxy,web", "none"}},
		{api.AnnotationMode, []string{"args", "env", "mount", "bad"}},
		{api.AnnotationCertFlag, []string{"-cert"}},
		{api.AnnotationMountPath, []string{"/data/tls", "/data", "/tmp/certs", "/tmp"}},
		{api.AnnotationHTTPSProbes, []string{"auto", "true", "false"}},
		{api.AnnotationProxyProtocol, []string{"8443", "1, 8443", "8444,15444", "http"}},
		{api.AnnotationProxyResources, []string{"limits.memory=128Mi", "requests.cpu=1,limits.cpu=1", "cpu=1"}},
		{api.AnnotationTrust, []string{"true", "false", "env", "env"}},
		{api.AnnotationIdentity, []string{"true", "true", "false"}},
		{api.AnnotationCombinedPEM, []string{"true", "false"}},
		{api.AnnotationStatus, []string{"{}"}},
		{"kubectl.kubernetes.io/default-container", []string{"web", "x"}},
		{"servingcert.dev/typo", []string{"x"}},
		{"helm.sh/hook", []string{"test"}},
	} {
		if rapid.IntRange(0, 5).Draw(t, a.key) == 1 {
			pod.Annotations[a.key] = rapid.SampledFrom(a.allowed).Draw(t, "value")
		}
	}
	for _, n := range rapid.SliceOfNDistinct(words, 0, 3, rapid.ID).Draw(t, "volumes") {
		pod.Spec.Volumes = append(pod.Spec.Volumes, drawVolume(t, n))
	}
	always := corev1.ContainerRestartPolicyAlways
	for i, n := range rapid.SliceOfNDistinct(words, 1, 4, rapid.ID).Draw(t, "containers") {
		c := drawContainer(t, n)
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case i == 0 || kind > 1:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		case kind == 1:
			c.RestartPolicy = &always
			fallthrough
		default:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
	}
	if rapid.Bool().Draw(t, "pull secret") {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	}
	pod.Spec.HostNetwork = rapid.IntRange(0, 9).Draw(t, "host network") == 1
	if rapid.Bool().Draw(t, "securityContext") {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: rapid.Ptr(rapid.Int64Range(0, 1), true).Draw(t, "fsGroup"), RunAsUser: rapid.Ptr(rapid.Int64Range(0, 1), true).Draw(t, "user")}
	}
	return pod
}

func drawVolume(t *rapid.T, name string) corev1.Volume {
	v := corev1.Volume{Name: name}
	switch rapid.IntRange(0, 3).Draw(t, "projected") {
	case 0:
		v.Projected = &corev1.ProjectedVolumeSource{Sources: volume.IdentityFolder("example.com")}
	case 1:
		v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web-tls"}}}}}
	default:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	return v
}

// fewPrograms are programs of every form.
var fewPrograms = func() programs.Table {
	more, err := programs.Parse([]byte(`
- {program: key, images: [key], flags: [-c, "ssl_cert_file={cert}", -c, "ssl_key_file={key}", -c, ssl=on], privateKey: true, reload: signal, reloadHow: SIGHUP}
- {program: combined, images: [combined], flags: ["--pem={combined}"], first: true, ports: [8443], moves: true, since: "2", reload: restart}
- {program: files, images: [files], flags: [--dir, "{dir}"], files: {public.crt: tls.crt, ca.pem: ca.crt}, env: [{name: A, value: "1"}], unless: {--port: x, B: y}, dropsRoot: true, note: n, reload: itself}
- {program: mount, arguments: [--one, --two], mount: /tmp/certs, ports: [8443], moves: true, own: [--certs], reload: itself}
`))
	if err != nil {
		panic(err)
	}
	table, err := programs.Builtin().With(more)
	if err != nil {
		panic(err)
	}
	return table
}()

func serviceAnnotations(t *rapid.T) map[string]string {
	out := map[string]string{api.AnnotationSecretName: rapid.SampledFrom([]string{"web-tls", "other-tls", "serving-cert", "Bad"}).Draw(t, "secret")}
	if rapid.Bool().Draw(t, "pod keys") {
		out[api.AnnotationKeySource] = "pod"
	}
	for key, values := range map[string][]string{
		api.AnnotationKeySource: {"secret", "x"}, api.AnnotationKeyAlgorithm: {"ED25519", "RSA2048", "RSA4096", "x"},
		api.AnnotationDuration: {"1s", "12h", "9999h", "x"},
		api.AnnotationMode:     {"args", "mount"}, api.AnnotationCombinedPEM: {"true", "x"}, api.AnnotationHTTPSProbes: {"false"},
		api.AnnotationContainers: {"web"}, api.AnnotationMountPath: {"/data/tls", "/"}, api.AnnotationCertFlag: {"-cert", "-key"},
		api.AnnotationProxyProtocol: {"8443", "8444", "0"},
	} {
		if rapid.IntRange(0, 5).Draw(t, key) == 1 {
			out[key] = rapid.SampledFrom(values).Draw(t, "value")
		}
	}
	return out
}

func drawServicePort(t *rapid.T) corev1.ServicePort {
	target := rapid.SampledFrom([]string{"", "https", "8443", "8442", "sc-tls-8443", "sc-tls-8444", "sc-any-http", "sc-tls-sc-any-1", "sc-any-1", "sc-tls-15444"}).Draw(t, "target")
	p := corev1.ServicePort{Port: 443, Name: rapid.SampledFrom([]string{"", "http", "https", "grpc"}).Draw(t, "name"), TargetPort: intstr.Parse(target)}
	if target == "" {
		p.TargetPort = intstr.IntOrString{}
	}
	return p
}

func drawKnown(t *rapid.T) choose.Known {
	known := choose.Known{
		ConventionalSecret: rapid.Bool().Draw(t, "conventional"), Programs: &fewPrograms,
		UnknownPrograms: rapid.SampledFrom([]api.UnknownPrograms{"", api.UnknownProgramsFiles, api.UnknownProgramsFlags}).Draw(t, "unknown programs"),
		NoPodKeys:       rapid.IntRange(0, 5).Draw(t, "no pod keys") == 1, TrustBundle: rapid.Bool().Draw(t, "trust bundle"),
		ProxyImage:       rapid.SampledFrom([]string{proxyImage, proxyImage, ""}).Draw(t, "proxy image"),
		ProxyPullSecrets: rapid.SampledFrom([][]string{nil, {"registry"}, {"registry", "other"}}).Draw(t, "pull secrets"),
		HostFiles:        rapid.SampledFrom([]string{"", "", "/var/lib/servingcert"}).Draw(t, "host files"),
	}
	if rapid.Bool().Draw(t, "namespace says") {
		known.Namespace = map[string]string{api.AnnotationMode: rapid.SampledFrom([]string{"args", "env", "bad"}).Draw(t, "mode"), api.AnnotationKeyFlag: "-key", api.AnnotationProxyProtocol: "8443,9"}
	}
	known.TrustDomain = rapid.SampledFrom([]string{"", "example.com"}).Draw(t, "trust domain")
	known.PublicRoots = rapid.Bool().Draw(t, "public roots")
	if rapid.IntRange(0, 3).Draw(t, "namespace trusts") == 1 {
		known.Namespace = map[string]string{api.AnnotationTrust: "env", api.AnnotationIdentity: "true"}
	}
	for _, n := range rapid.SliceOfNDistinct(words, 0, 2, rapid.ID).Draw(t, "services") {
		known.Services = append(known.Services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: n, Annotations: serviceAnnotations(t)},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "web"},
				Ports:    rapid.SliceOfN(rapid.Custom(drawServicePort), 1, 4).Draw(t, "ports"),
			},
		})
	}
	return known
}

// drawForeign returns the pod as another webhook might leave it: with a sidecar
// before, between or after the containers, variables, mounts, an annotation.
func drawForeign(t *rapid.T, pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	at := rapid.IntRange(0, len(pod.Spec.Containers)).Draw(t, "at")
	pod.Spec.Containers = slices.Insert(pod.Spec.Containers, at, drawContainer(t, "foreign"))
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Env = append([]corev1.EnvVar{{Name: "FOREIGN_" + c.Name}}, c.Env...)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "foreign", MountPath: "/foreign"})
	}
	pod.Spec.Volumes = slices.Insert(pod.Spec.Volumes, 0, corev1.Volume{Name: "foreign"})
	if rapid.Bool().Draw(t, "native sidecar") {
		c := drawContainer(t, "foreign-sidecar")
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		at := rapid.IntRange(0, len(pod.Spec.InitContainers)).Draw(t, "sidecar at")
		pod.Spec.InitContainers = slices.Insert(pod.Spec.InitContainers, at, c)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["foreign.example/injected"] = "yes"
	return pod
}
