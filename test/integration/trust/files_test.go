package trust

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// publicRoots are those of the system, or a stand-in of its size.
func publicRoots(t *testing.T) pki.Bundle {
	t.Helper()
	if data, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt"); err == nil {
		roots, err := pki.ParseRoots(data, 384<<10)
		require.NoError(t, err)
		return roots
	}
	var all []byte
	for n := range 140 {
		all = append(all, newRoot(t, n, time.Now().Add(time.Hour)).PEM()...)
	}
	roots, err := pki.ParseRoots(all, 384<<10)
	require.NoError(t, err)
	return roots
}

func withPublic(roots pki.Bundle) func(*trustcontroller.Config) {
	return func(c *trustcontroller.Config) { c.PublicRoots = roots }
}

// filesAre waits until the ConfigMap has the bundle and exactly these files, with the right roots.
func filesAre(t *testing.T, cm *corev1.ConfigMap, password, bundle string, public pki.Bundle, files ...string) {
	t.Helper()
	ours, err := pki.ParseBundle([]byte(bundle))
	require.NoError(t, err)
	both := pki.NewBundle(append(public.Certificates(), ours.Certificates()...)...)
	check := map[string]func(cm *corev1.ConfigMap) error{
		formats.PublicBundleFile: func(cm *corev1.ConfigMap) error {
			if cm.Data[formats.PublicBundleFile] != string(both.PEM()) {
				return fmt.Errorf("%d bytes", len(cm.Data[formats.PublicBundleFile]))
			}
			return nil
		},
	}
	for file, roots := range map[string]pki.Bundle{formats.TruststoreFile: ours, formats.PublicTruststoreFile: both} {
		check[file] = func(cm *corev1.ConfigMap) error {
			held, err := pkcs12.DecodeTrustStore(cm.BinaryData[file], password)
			if err == nil && pki.NewBundle(held...).Hash() != roots.Hash() {
				err = fmt.Errorf("%d roots, must be %d", len(held), len(roots.Certificates()))
			}
			return err
		}
	}
	harness.Eventually(t, func() error {
		cm := read(t, cm)
		if cm.Data[api.BundleKey] != bundle {
			return fmt.Errorf("%s is not the bundle", api.BundleKey)
		}
		if n := len(cm.Data) + len(cm.BinaryData); n != 1+len(files) {
			return fmt.Errorf("%d keys, must be %d", n, 1+len(files))
		}
		for _, file := range files {
			if err := check[file](cm); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		return nil
	})
}

// changes returns how often the object has changed until now since changes was called.
func changes(t *testing.T, cm *corev1.ConfigMap) func() int {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	events, err := clientset.CoreV1().ConfigMaps(cm.Namespace).Watch(t.Context(), metav1.SingleObject(read(t, cm).ObjectMeta))
	require.NoError(t, err)
	t.Cleanup(events.Stop)
	return func() int {
		t.Helper()
		last := read(t, cm).ResourceVersion
		for n := 1; ; n++ {
			select {
			case event := <-events.ResultChan():
				if event.Object.(*corev1.ConfigMap).ResourceVersion == last {
					return n
				}
			case <-time.After(time.Minute):
				require.FailNow(t, "the last change is not seen", "%d changes", n-1)
			}
		}
	}
}

// repeats returns how often the rotator may have written the same again since then: it does where it
// looks at a ConfigMap before its watch has what it wrote there, but for the next second.
func repeats(since time.Time) int { return int(time.Since(since) / time.Second) }

// An opted-in namespace gets the files that it asks for, as its program of admission policies lets
// the rotator; they follow the bundle and are repaired, and nothing is written twice.
func TestNamespaceGetsFiles(t *testing.T) {
	first, second, public := newBundle(t), newBundle(t), publicRoots(t)
	setSource(t, first)
	r := startRotator(t, withPublic(public))
	since := time.Now() // before the rotator can write
	ns := newNamespace(t)
	writes := func() int { return r.requests.count("/" + ns + "/configmaps") }
	cm := bundleConfigMap(ns)
	holds(t, ns, first)
	filesAre(t, cm, "changeit", first, public)
	changed := changes(t, cm)
	of := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	annotated := func(annotations map[string]string) {
		harness.Change(t, admin, of, func(ns *corev1.Namespace) { ns.Annotations = annotations })
	}
	annotated(map[string]string{api.AnnotationTrust: "env"})
	filesAre(t, cm, "changeit", first, public, formats.PublicBundleFile, formats.PublicTruststoreFile)
	annotated(map[string]string{api.AnnotationTrust: "env", api.AnnotationFormats: "truststore.p12"})
	all := []string{formats.TruststoreFile, formats.PublicBundleFile, formats.PublicTruststoreFile}
	filesAre(t, cm, "changeit", first, public, all...)

	setSource(t, second)
	filesAre(t, cm, "changeit", second, public, all...)
	r.settled(t)
	assert.LessOrEqual(t, writes(), 4+repeats(since))
	assert.Equal(t, 3, changed(), "one for each change of what is asked for and of the bundle")
	for name, damage := range map[string]func(cm *corev1.ConfigMap){
		"one is changed":      func(cm *corev1.ConfigMap) { cm.BinaryData[formats.TruststoreFile][10] ^= 1 },
		"one is removed":      func(cm *corev1.ConfigMap) { delete(cm.BinaryData, formats.PublicTruststoreFile) },
		"one has fewer roots": func(cm *corev1.ConfigMap) { cm.Data[formats.PublicBundleFile] = second },
	} {
		t.Log(name)
		before := writes()
		harness.Change(t, admin, cm, damage)
		filesAre(t, cm, "changeit", second, public, all...)
		r.settled(t)
		// That it is damaged comes by the watch that has what was written before: no look is too early.
		assert.Equal(t, 1, writes()-before, name)
	}
	changed, before := changes(t, cm), writes()
	since = time.Now()
	harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) {
		delete(cm.BinaryData, formats.TruststoreFile)
		cm.Data[formats.TruststoreFile] = "x"
	})
	filesAre(t, cm, "changeit", second, public, all...)
	r.settled(t)
	assert.Equal(t, 3, changed(), "the text is written here, removed, and replaced by the file")
	assert.LessOrEqual(t, writes()-before, 2+2*repeats(since))
	before = writes()
	harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) { cm.Annotations = map[string]string{"example.com/note": "looked at again"} })
	r.settled(t)
	assert.Equal(t, before, writes(), "nothing is written twice")

	since = time.Now()
	annotated(nil)
	setSource(t, first)
	holds(t, ns, first)
	assert.Len(t, read(t, cm).BinaryData, 2, "what is asked for no more stays as it is")
	assert.LessOrEqual(t, writes()-before, 2+2*repeats(since), "the files are released, and the bundle is applied")
}

// An annotated ConfigMap has its own password, and what it asks for in vain is said.
func TestConfigMapGetsFiles(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	startRotator(t)
	asks := annotation()
	asks[api.AnnotationFormats], asks[api.AnnotationKeystorePassword] = "truststore.p12", "s3cret!"
	cm := newConfigMap(t, asks, nil)
	filesAre(t, cm, "s3cret!", bundle, pki.Bundle{}, formats.TruststoreFile)
	harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) {
		cm.Annotations[api.AnnotationFormats] = "truststore.p12,ca-with-public.crt"
	})
	assert.Contains(t, event(t, cm.Namespace, trustcontroller.EventUnsuitable, cm.Name), "the rotator has none: set its --public-roots")
	filesAre(t, cm, "s3cret!", bundle, pki.Bundle{}, formats.TruststoreFile)

	second := newConfigMap(t, map[string]string{api.AnnotationInjectCABundle: "true", api.AnnotationFormats: "jks"}, nil)
	assert.Contains(t, event(t, second.Namespace, trustcontroller.EventUnsuitable, second.Name), `"jks" is not a file with roots: must be a comma-separated list of ca.crt, truststore.p12`)
	filesAre(t, second, "", bundle, pki.Bundle{})
}
