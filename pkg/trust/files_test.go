package trust

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/skip"
)

// bundleOf returns the bundle of the roots as Sources does, with public roots or without.
func bundleOf(t *testing.T, roots, public pki.Bundle) Bundle {
	t.Helper()
	s := Sources{Public: public}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}, Data: map[string]string{api.BundleKey: string(roots.PEM())}}
	b, err := s.Read(cm, false, noon)
	require.NoError(t, err)
	return b
}

func asking(annotations ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{own: "true"}}}
	for i := 0; i < len(annotations); i += 2 {
		cm.Annotations[annotations[i]] = annotations[i+1]
	}
	return cm
}

// apply does what the writes of the request do: the merge patch that clears, and the apply.
func apply(t *testing.T, cm *corev1.ConfigMap, r Request, b Bundle) {
	t.Helper()
	data, binary := ConfigMapData(r, b)
	for key := range data {
		delete(cm.BinaryData, key)
	}
	for key := range binary {
		delete(cm.Data, key)
	}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	if cm.BinaryData == nil {
		cm.BinaryData = map[string][]byte{}
	}
	for key, value := range data {
		cm.Data[key] = value
	}
	for key, value := range binary {
		cm.BinaryData[key] = value
	}
}

// What annotations request, what is written with and without public roots, and what is reported about
// the rest.
func TestFiles(t *testing.T) {
	ours, public := rootBundle(t, noon.Add(time.Hour)), rootBundle(t, noon.Add(time.Hour))
	with, without := bundleOf(t, ours, public), bundleOf(t, ours, pki.Bundle{})
	const (
		all      = "truststore.p12, ca-with-public.crt,truststore-with-public.p12"
		allFiles = "ca-with-public.crt truststore-with-public.p12 truststore.p12"
		public2  = "ca-with-public.crt truststore-with-public.p12"
		noRoots  = "need public roots, and the rotator has none: set its --public-roots"
	)
	for name, c := range map[string]struct {
		annotations            []string
		of                     func(metav1.Object) Request
		with, without          string // files beside ca.crt
		lacksWith, lacksWithou string
	}{
		"nothing":                  {nil, nil, "", "", "", ""},
		"the bundle":               {[]string{api.AnnotationFormats, "ca.crt"}, nil, "", "", "", ""},
		"a truststore":             {[]string{api.AnnotationFormats, "ca.crt, truststore.p12"}, nil, "truststore.p12", "truststore.p12", "", ""},
		"all":                      {[]string{api.AnnotationFormats, all}, nil, allFiles, "truststore.p12", "", noRoots},
		"unknown":                  {[]string{api.AnnotationFormats, "jks,truststore.p12"}, nil, "truststore.p12", "truststore.p12", `"jks" is not a file with roots: must be a comma-separated list of ca.crt, truststore.p12, ca-with-public.crt, truststore-with-public.p12`, `"jks"`},
		"unknown and long":         {[]string{api.AnnotationFormats, strings.Repeat("x", 1000)}, nil, "", "", `xxx`, `xxx`},
		"a password of a kilobyte": {[]string{api.AnnotationFormats, all, api.AnnotationKeystorePassword, strings.Repeat("x", 1000)}, nil, "ca-with-public.crt", "", "1000 bytes: must be 6 to 128 bytes", "1000 bytes"},
		"trust":                    {[]string{api.AnnotationTrust, "env"}, nil, "", "", "", ""},
		"trust of a namespace":     {[]string{api.AnnotationTrust, "env"}, NamespaceRequest, public2, "", "", ""},
		"no trust of a namespace":  {[]string{api.AnnotationTrust, "true"}, NamespaceRequest, "", "", "", ""},
		"both of a namespace":      {[]string{api.AnnotationTrust, "env", api.AnnotationFormats, "truststore.p12"}, NamespaceRequest, allFiles, "truststore.p12", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := c.of
			if of == nil {
				of = func(o metav1.Object) Request { return RequestOf(o, false) }
			}
			for _, v := range []struct {
				bundle       Bundle
				files, lacks string
			}{{with, c.with, c.lacksWith}, {without, c.without, c.lacksWithou}} {
				cm := asking(c.annotations...)
				r := of(cm)
				require.Empty(t, r.Problem, "the bundle is written in any case")
				require.Equal(t, StatePending, EvaluateConfigMap(cm, r, v.bundle).State)
				apply(t, cm, r, v.bundle)
				require.Equal(t, Holds(), EvaluateConfigMap(cm, r, v.bundle))
				assert.Equal(t, string(ours.PEM()), cm.Data[api.BundleKey])
				assert.Len(t, cm.Data, 1+strings.Count(v.files, ".crt"))
				assert.Len(t, cm.BinaryData, strings.Count(v.files, ".p12"))
				for file := range strings.FieldsSeq(v.files) {
					assert.NotEmpty(t, cm.Data[file]+string(cm.BinaryData[file]), file)
				}
				if v.lacks == "" {
					assert.Empty(t, r.Lacks(v.bundle))
				} else {
					assert.Contains(t, r.Lacks(v.bundle), v.lacks)
				}
				assert.Less(t, len(r.Lacks(v.bundle)), 400)
			}
		})
	}
}

// The files have the roots. A file that is damaged or in the wrong place is written again. The result is
// the same with digests in the cache.
func TestFilesAreEvaluated(t *testing.T) {
	ours, public := rootBundle(t, noon.Add(time.Hour)), rootBundle(t, noon.Add(time.Hour))
	b := bundleOf(t, ours, public)
	cm := asking(api.AnnotationFormats, "truststore.p12,ca-with-public.crt,truststore-with-public.p12", api.AnnotationKeystorePassword, "s3cret!")
	r := RequestOf(cm, false)
	apply(t, cm, r, b)
	both := join(ours, public)
	for file, want := range map[string]pki.Bundle{formats.TruststoreFile: ours, formats.PublicTruststoreFile: both} {
		held, err := pkcs12.DecodeTrustStore(cm.BinaryData[file], "s3cret!")
		require.NoError(t, err)
		assert.Equal(t, want.Certificates(), held)
	}
	assert.Equal(t, string(both.PEM()), cm.Data[formats.PublicBundleFile])

	evaluated := func(cm *corev1.ConfigMap) Evaluation {
		kept := cm.DeepCopy()
		StripConfigMap(kept, r)
		StripConfigMap(kept, r) // the digest of a digest is the same
		require.Equal(t, EvaluateConfigMap(cm, r, b), EvaluateConfigMap(kept, r, b))
		require.Equal(t, string(ClearConfigMap(cm, r, b)), string(ClearConfigMap(kept, r, b)))
		for key, value := range kept.BinaryData {
			require.LessOrEqual(t, len(value), 64, key)
		}
		return EvaluateConfigMap(kept, r, b)
	}
	require.Equal(t, Holds(), evaluated(cm))
	require.Nil(t, ClearConfigMap(cm, r, b))
	for name, c := range map[string]struct {
		change func(cm *corev1.ConfigMap)
		want   string
		clears string
	}{
		"damaged": {func(cm *corev1.ConfigMap) { cm.BinaryData[formats.TruststoreFile][100] ^= 1 }, "key truststore.p12 does not have the current roots", ""},
		"cut off": {func(cm *corev1.ConfigMap) { cm.Data[formats.PublicBundleFile] = cm.Data[formats.PublicBundleFile][1:] }, "key ca-with-public.crt does not have the current roots", ""},
		"removed": {func(cm *corev1.ConfigMap) { delete(cm.BinaryData, formats.PublicTruststoreFile) }, "key truststore-with-public.p12 is missing", ""},
		"in the wrong": {func(cm *corev1.ConfigMap) {
			delete(cm.BinaryData, formats.TruststoreFile)
			cm.Data[formats.TruststoreFile] = "x"
		}, "key truststore.p12 is in data instead of binaryData", `{"metadata":{"resourceVersion":"7"},"data":{"truststore.p12":null}}`},
		"bytes, no text": {func(cm *corev1.ConfigMap) {
			delete(cm.Data, formats.PublicBundleFile)
			cm.BinaryData[formats.PublicBundleFile] = []byte{1}
		}, "key ca-with-public.crt is in binaryData instead of data", `{"metadata":{"resourceVersion":"7"},"binaryData":{"ca-with-public.crt":null}}`},
		"the bundle": {func(cm *corev1.ConfigMap) { cm.Data[api.BundleKey] = string(public.PEM()) }, "key ca.crt is not the current CA bundle", ""},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := cm.DeepCopy()
			c.change(damaged)
			assert.Equal(t, Differs(c.want), evaluated(damaged))
			assert.Equal(t, c.clears, string(ClearConfigMap(damaged, r, b)))
			apply(t, damaged, r, b)
			assert.Equal(t, Holds(), evaluated(damaged))
			assert.Equal(t, cm.BinaryData, damaged.BinaryData)
		})
	}
	assert.Equal(t, "key ca.crt is not the current CA bundle", EvaluateConfigMap(cm, r, bundleOf(t, public, public)).Message, "a new CA")
}

// What a target's own decision found of files with a password of its own is recalled while nothing
// that it was made of changes, from the API server's object or from the cache's.
func TestRecall(t *testing.T) {
	ours, public := rootBundle(t, noon.Add(time.Hour)), rootBundle(t, noon.Add(time.Hour))
	b := bundleOf(t, ours, public)
	cm := asking(api.AnnotationFormats, "truststore.p12,ca-with-public.crt", api.AnnotationKeystorePassword, "s3cret!")
	proof := func(cm *corev1.ConfigMap) string {
		cached := cm.DeepCopy()
		StripConfigMap(cached, RequestOf(cm, false))
		of := Proof(cached, RequestOf(cm, false), b)
		require.Equal(t, Proof(cm, RequestOf(cm, false), b), of)
		return of
	}
	decided := func(last Record) Record {
		s := Situation{Now: noon, Bundle: b, Requested: true, Exists: true, Patience: time.Minute, Last: last, Proof: proof(cm)}
		s.Held = EvaluateConfigMap(cm, RequestOf(cm, false), b)
		return Conclude(s, Decide(s), Attempt{}).Record
	}
	unknown := Record{}.Recall(b, proof(cm))
	assert.Equal(t, StatePending, unknown.State)
	last := decided(Record{})
	assert.Equal(t, Differs("key ca.crt is missing"), last.Recall(b, proof(cm)))

	apply(t, cm, RequestOf(cm, false), b)
	last = decided(last)
	assert.Equal(t, Holds(), last.Recall(b, proof(cm)))
	assert.Equal(t, unknown, last.Recall(bundleOf(t, public, public), proof(cm)), "a new CA")
	for name, change := range map[string]func(cm *corev1.ConfigMap){
		"a damaged file":    func(cm *corev1.ConfigMap) { cm.BinaryData[formats.TruststoreFile][100] ^= 1 },
		"a file is removed": func(cm *corev1.ConfigMap) { delete(cm.BinaryData, formats.TruststoreFile) },
		"another text":      func(cm *corev1.ConfigMap) { cm.Data[formats.PublicBundleFile] = "x" },
		"another bundle":    func(cm *corev1.ConfigMap) { cm.Data[api.BundleKey] = string(public.PEM()) },
		"another password":  func(cm *corev1.ConfigMap) { cm.Annotations[api.AnnotationKeystorePassword] = "another" },
		"another file":      func(cm *corev1.ConfigMap) { cm.Annotations[api.AnnotationFormats] = "truststore.p12" },
	} {
		changed := cm.DeepCopy()
		change(changed)
		assert.Equal(t, unknown, last.Recall(b, proof(changed)), name)
	}
	for _, annotations := range [][]string{{}, {api.AnnotationFormats, "truststore.p12"}, {api.AnnotationFormats, "ca-with-public.crt", api.AnnotationKeystorePassword, "s3cret!"}} {
		assert.Empty(t, proof(asking(annotations...)), "it has no file with a password of its own: %v", annotations)
	}
}

// An owned field that is no longer requested is kept: an apply without it would remove it.
func TestOwnsOtherKeyOfFiles(t *testing.T) {
	ours := rootBundle(t, noon.Add(time.Hour))
	with, without := bundleOf(t, ours, rootBundle(t, noon.Add(time.Hour))), bundleOf(t, ours, pki.Bundle{})
	cm := asking(api.AnnotationFormats, "truststore.p12,ca-with-public.crt")
	cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1: metav1.NewFieldsV1(`{"f:binaryData":{"f:truststore.p12":{}},"f:data":{"f:ca.crt":{},"f:ca-with-public.crt":{}}}`)}}
	assert.False(t, OwnsOtherKey(cm, RequestOf(cm, false), with))
	assert.True(t, OwnsOtherKey(cm, RequestOf(cm, false), without), "the operator took the public roots away")
	cm.Annotations[api.AnnotationFormats] = "ca-with-public.crt"
	assert.True(t, OwnsOtherKey(cm, RequestOf(cm, false), with))
	fields, applies := cm.ManagedFields[0].FieldsV1, metav1.ManagedFieldsOperationApply
	cm.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: applies, FieldsV1: fields},
		{Manager: FieldManager, Operation: "Update", FieldsV1: fields},
		{Manager: FieldManager, Operation: applies, Subresource: "status", FieldsV1: fields},
		{Manager: FieldManager, Operation: applies},
	}
	assert.False(t, OwnsOtherKey(cm, RequestOf(cm, false), with), "others own it")
}

// Public roots are certificates of CAs in PEM, and not too many.
func TestParsePublicRoots(t *testing.T) {
	root := rootBundle(t, noon.Add(time.Hour))
	key, err := pki.GenerateKey(pki.Ed25519)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	for name, c := range map[string]struct{ data, err string }{
		"a root":        {string(root.PEM()), ""},
		"twice":         {string(root.PEM()) + "\n" + string(root.PEM()), ""},
		"empty":         {"", "no certificate"},
		"not PEM":       {"x", "certificate 1: not PEM"},
		"text":          {string(root.PEM()) + "GlobalSign\n==========\n", "certificate 2: not PEM"},
		"a private key": {string(root.PEM()) + string(keyPEM), `PEM block is a "PRIVATE KEY"`},
		"damaged":       {strings.Replace(string(root.PEM()), "MII", "M!I", 1), "certificate 1"},
		"too long":      {strings.Repeat(" ", MaxPublicRoots+1), "393217 bytes: must be at most 393216"},
	} {
		got, err := ParsePublicRoots([]byte(c.data))
		if c.err == "" {
			require.NoError(t, err, name)
			assert.Equal(t, root, got, name)
			continue
		}
		require.ErrorContains(t, err, c.err, name)
	}
}

// The files that are made of Debian's public roots fit into a ConfigMap three times.
func TestPublicRootsOfDebian(t *testing.T) {
	data, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		skip.Now(t, "the system has no bundle: "+err.Error())
	}
	public, err := ParsePublicRoots(data)
	require.NoError(t, err)
	b := bundleOf(t, rootBundle(t, noon.Add(time.Hour)), public)
	text, binary := ConfigMapData(AllFiles(), b)
	size := 0
	for key, value := range text {
		t.Log(key, len(value))
		size += len(value)
	}
	for key, value := range binary {
		t.Log(key, len(value))
		size += len(value)
	}
	assert.Less(t, size, 768<<10)
	held, err := pkcs12.DecodeTrustStore(binary[formats.PublicTruststoreFile], formats.DefaultPassword)
	require.NoError(t, err)
	assert.Len(t, held, 1+len(public.Certificates()))
}
