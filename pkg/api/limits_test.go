package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/test/bounded"
)

// most is how large the API server lets the annotations of an object be.
const most = 256 << 10

// listOf returns a list of different names, separated by commas, of about size bytes.
func listOf(size int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func annotated(key, value string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Annotations: map[string]string{key: value}}
}

// TestTheLengthOfAListIsCheckedBeforeItsEntries: the first entry is also not valid. An error about it
// would mean that entries are checked before the length of the list.
func TestTheLengthOfAListIsCheckedBeforeItsEntries(t *testing.T) {
	short := strings.Repeat("a,", MaxNames) + "a"
	for name, tc := range map[string]struct {
		parse func() error
		says  string
	}{
		"bytes of extra-dns-names": {func() error {
			_, err := Parse(service(AnnotationExtraDNSNames, "-,"+listOf(62<<10, "n%d.web.shop.svc")), DefaultLimits())
			return err
		}, "63491 bytes: must be at most 25600"},
		"names of extra-dns-names": {func() error {
			_, err := Parse(service(AnnotationExtraDNSNames, "-,"+short), DefaultLimits())
			return err
		}, "102 names: must be at most 100"},
		"bytes of containers": {func() error {
			_, err := ParsePod(annotated(AnnotationContainers, "-,"+listOf(182<<10, "c%d")))
			return err
		}, "bytes: must be at most 6400"},
		"names of containers": {func() error {
			_, err := ParsePod(annotated(AnnotationContainers, "-,"+short))
			return err
		}, "102 names: must be at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.parse()
			require.ErrorAs(t, err, new(*FieldError))
			assert.Contains(t, err.Error(), tc.says)
			assert.Less(t, len(err.Error()), 1000)
		})
	}
}

// TestHostileAnnotationsCostLittle: for annotations as large as the API server accepts, less is
// allocated than a few copies of the longest allowed value.
func TestHostileAnnotationsCostLittle(t *testing.T) {
	const bound = 4 * MaxAnnotation * bounded.RaceFactor
	limits := permissive()
	limits.FormerDomains = []string{"old.local"}
	for name, value := range map[string]string{
		"names":       listOf(most, "n%d.web.shop.svc"),
		"short names": strings.Repeat("a,", most/2),
		"commas":      strings.Repeat(",", most),
		"one name":    strings.Repeat("a", most),
		"labels":      strings.Repeat("a.", most/2),
		"wildcards":   strings.Repeat("*.", most/2),
		"no UTF-8":    strings.Repeat("\xff", most),
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{AnnotationSecretName, AnnotationDuration, AnnotationKeyAlgorithm, AnnotationExtraDNSNames, AnnotationClusterIPs, AnnotationRenewAfter} {
				svc := service(key, value)
				var err error
				assert.Less(t, bounded.Allocated(func() { _, err = Parse(svc, limits) }), uint64(bound), key)
				require.Error(t, err)
				assert.Less(t, len(err.Error()), 2000, key)
				assert.Less(t, bounded.Allocated(func() { Retained([]*corev1.Service{svc}, limits) }), uint64(bound), key)
			}
			for _, p := range podAnnotations {
				meta := annotated(p.key, value)
				var err error
				assert.Less(t, bounded.Allocated(func() { _, err = ParsePod(meta) }), uint64(bound), p.key)
				require.Error(t, err)
				assert.Less(t, len(err.Error()), 2000, p.key)
			}
			for _, s := range settings {
				assert.Less(t, bounded.Allocated(func() { ParseSettings(map[string]string{s.key: value}) }), uint64(bound), s.key)
			}
		})
	}
}

// TestRetainedNamesAreTheFirst: a Service keeps the first names of a list that is too long, and
// always its own names.
func TestRetainedNamesAreTheFirst(t *testing.T) {
	for _, n := range []int{MaxNames - 2, MaxNames - 1, 200, 5000} {
		got := Retained([]*corev1.Service{service(AnnotationExtraDNSNames, listOf(n*16, "n%04d.web.shop.svc"))}, DefaultLimits())
		assert.LessOrEqual(t, len(got.DNSNames), MaxNames)
		assert.Contains(t, got.DNSNames, "web.shop.svc")
		assert.Contains(t, got.DNSNames, "n0000.web.shop.svc")
	}
}

// TestCachesHoldTruncatedText: a stripped Service is bounded in size, and is refused like the
// original.
func TestCachesHoldTruncatedText(t *testing.T) {
	svc := service(AnnotationExtraDNSNames, listOf(most, "n%d.web.shop.svc"))
	svc.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Message: strings.Repeat("x", 1<<20)}}
	keep := Keep{Annotations: []string{AnnotationExtraDNSNames, AnnotationSecretName}, Conditions: []string{ConditionReady}}
	kept := StripService(svc, keep)
	assert.LessOrEqual(t, len(kept.Annotations[AnnotationExtraDNSNames]), MaxAnnotation+1)
	assert.LessOrEqual(t, len(kept.Status.Conditions[0].Message), MaxMessage+1)
	assert.Len(t, svc.Status.Conditions[0].Message, 1<<20, "the Service was changed")
	assert.Equal(t, kept, StripService(kept, keep))
	_, err := Parse(kept, DefaultLimits())
	assert.ErrorContains(t, err, AnnotationExtraDNSNames)
}

// TestHostileProxiesCostLittle: the arguments of a proxy are of any length and number, as anybody may
// give a container its name.
func TestHostileProxiesCostLittle(t *testing.T) {
	const size = 3 << 20
	always := corev1.ContainerRestartPolicyAlways
	for name, args := range map[string][]string{
		"other":         {strings.Repeat(",", size)},
		"a listener":    {ProxyFlagListen + "=" + strings.Repeat(",", size)},
		"its port":      {ProxyFlagListen + "=sc-tls-8080=" + strings.Repeat("1", size) + ":1"},
		"administrator": {ProxyFlagAdmin + "=127.0.0.1:" + strings.Repeat("1", size)},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: ProxyContainer, RestartPolicy: &always, Args: args}}}}
		var found bool
		assert.Less(t, bounded.Allocated(func() { _, found = ProxyOf(pod) }), uint64(4<<10), name)
		assert.False(t, found, name)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: ProxyContainer, RestartPolicy: &always}}}}
	for i := range 20_000 {
		pod.Spec.InitContainers[0].Args = append(pod.Spec.InitContainers[0].Args, fmt.Sprintf("%s=sc-tls-%d=%d:%d", ProxyFlagListen, 1+i, 20_001+i, 1+i))
	}
	proxy, _ := ProxyOf(pod)
	assert.Len(t, proxy.Listeners, MaxProxyPorts)
}

// TestALongPortNameCostsLittle: it is looked at for each container of its pod.
func TestALongPortNameCostsLittle(t *testing.T) {
	name := strings.Repeat("A", 3<<20)
	assert.Less(t, bounded.Allocated(func() { assert.False(t, PortSaysTLS(name, 1)) }), uint64(4<<10))
	assert.True(t, PortSaysTLS("HTTPS-"+name, 1))
}
