package admission

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/mutate/podpatch"
)

// text draws what a JSON string may have to escape, and what is not UTF-8.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-z<>&"\\/~=\x00-\x1f\x7f\x{2028}\x{1d11e}-]{0,8}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
	)
}

// mounts draws mounts with any of the fields that a mount has or will have.
func mounts() *rapid.Generator[corev1.VolumeMount] {
	plain := rapid.Custom(func(t *rapid.T) corev1.VolumeMount {
		return corev1.VolumeMount{Name: text().Draw(t, "name"), MountPath: text().Draw(t, "path"), ReadOnly: rapid.Bool().Draw(t, "read-only")}
	})
	one := rapid.Custom(func(t *rapid.T) corev1.VolumeMount { // with one field that has a value, so that it is not hidden by others
		m, all := plain.Draw(t, "mount"), rapid.Make[corev1.VolumeMount]().Draw(t, "all")
		field := rapid.IntRange(0, reflect.TypeOf(m).NumField()-1).Draw(t, "field")
		reflect.ValueOf(&m).Elem().Field(field).Set(reflect.ValueOf(all).Field(field))
		return m
	})
	return rapid.OneOf(plain, one, rapid.Make[corev1.VolumeMount]())
}

// volumes draws volumes, most of them projected, with any of the fields that what is
// written without encoding/json has or will have.
func volumes(t *testing.T) *rapid.Generator[corev1.Volume] {
	require.Equal(t, 3, reflect.TypeFor[corev1.ProjectedVolumeSource]().NumField(), "a new field is to be drawn, and to be written")
	item := rapid.OneOf(rapid.Make[corev1.KeyToPath](), rapid.Custom(func(t *rapid.T) corev1.KeyToPath {
		return corev1.KeyToPath{Key: text().Draw(t, "key"), Path: text().Draw(t, "path")}
	}))
	name := rapid.Map(text(), func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} })
	optional := rapid.Ptr(rapid.Bool(), true)
	source := rapid.Custom(func(t *rapid.T) (s corev1.VolumeProjection) {
		which := rapid.IntRange(1, 15).Draw(t, "which")
		if which&1 != 0 {
			secret := rapid.Make[corev1.SecretProjection]().Draw(t, "secret")
			secret.LocalObjectReference, secret.Items, secret.Optional = name.Draw(t, "name"), rapid.SliceOfN(item, 0, 2).Draw(t, "items"), optional.Draw(t, "optional")
			s.Secret = &secret
		}
		if which&6 == 2 {
			cm := rapid.Make[corev1.ConfigMapProjection]().Draw(t, "configMap")
			cm.LocalObjectReference, cm.Items, cm.Optional = name.Draw(t, "name"), rapid.SliceOfN(item, 0, 2).Draw(t, "items"), optional.Draw(t, "optional")
			s.ConfigMap = &cm
		}
		if which&12 == 8 {
			s.ServiceAccountToken = &corev1.ServiceAccountTokenProjection{Path: text().Draw(t, "path")}
		}
		return s
	})
	return rapid.Custom(func(t *rapid.T) corev1.Volume {
		v := corev1.Volume{Name: text().Draw(t, "name")}
		if rapid.IntRange(0, 3).Draw(t, "projected") > 0 {
			v.Projected = &corev1.ProjectedVolumeSource{}
			if rapid.Bool().Draw(t, "some") {
				v.Projected.Sources = rapid.SliceOfN(source, 0, 3).Draw(t, "sources")
			}
			v.Projected.DefaultMode = rapid.Ptr(rapid.Int32(), true).Draw(t, "mode")
			if rapid.IntRange(0, 3).Draw(t, "user") == 0 {
				v.Projected.DefaultUser = new(int64)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: "Memory"}
		}
		return v
	})
}

// TestPatchesAreWrittenAsEncodingJSONWritesThem: whatever the values of the operations.
func TestPatchesAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	variable := rapid.Custom(func(t *rapid.T) corev1.EnvVar {
		v := corev1.EnvVar{Name: text().Draw(t, "name"), Value: text().Draw(t, "value")}
		if rapid.Bool().Draw(t, "from") {
			v.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "a"}}
		}
		return v
	})
	volume, mount := volumes(t), mounts()
	value := rapid.OneOf(
		rapid.Just(any(nil)), text().AsAny(), rapid.SliceOfN(text(), 1, 3).AsAny(), rapid.MapOfN(text(), text(), 1, 3).AsAny(),
		mount.AsAny(), rapid.SliceOfN(mount, 1, 2).AsAny(), variable.AsAny(), rapid.SliceOfN(variable, 1, 3).AsAny(),
		rapid.Just(any(corev1.URISchemeHTTPS)), volume.AsAny(), rapid.SliceOfN(volume, 1, 2).AsAny(),
	)
	operation := rapid.Custom(func(t *rapid.T) podpatch.Operation {
		return podpatch.Operation{Op: text().Draw(t, "op"), Path: text().Draw(t, "path"), Value: value.Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		patch := podpatch.Patch(rapid.SliceOfN(operation, 0, 4).Draw(t, "patch"))
		want, err := patch.JSON()
		require.NoError(t, err)
		got, err := appendPatch(nil, patch)
		require.NoError(t, err)
		require.Equal(t, decoded(t, want), decoded(t, got), "%s\n%s", want, got)
	})
}

// TestAnswersAreWrittenAsEncodingJSONWritesThem: whatever is answered.
func TestAnswersAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	jsonPatch := admissionv1.PatchTypeJSONPatch
	rapid.Check(t, func(t *rapid.T) {
		resp := &admissionv1.AdmissionResponse{
			UID:              types.UID(text().Draw(t, "uid")),
			Allowed:          rapid.Bool().Draw(t, "allowed"),
			Patch:            rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "patch"),
			AuditAnnotations: rapid.MapOfN(text(), text(), 0, 2).Draw(t, "audit"),
			Warnings:         rapid.SliceOfN(text(), 0, 3).Draw(t, "warnings"),
		}
		if len(resp.Patch) > 0 {
			resp.PatchType = &jsonPatch
		}
		if rapid.Bool().Draw(t, "denied") {
			resp.Result = &metav1.Status{Code: 403, Message: text().Draw(t, "message")}
		}
		want, err := json.Marshal(&admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Response: resp,
		})
		require.NoError(t, err)
		got, err := appendReview(nil, resp, resp.Patch)
		require.NoError(t, err)
		require.Equal(t, decoded(t, want), decoded(t, got), "%s\n%s", want, got)
	})
}

// TestTextsAreSorted: the same answer is the same bytes.
func TestTextsAreSorted(t *testing.T) {
	texts := map[string]string{"d": "4", "b": "2", "a": "1", "c": "3"}
	want, err := json.Marshal(texts)
	require.NoError(t, err)
	require.Equal(t, string(want), string(appendTexts(nil, texts)))
}

func decoded(t require.TestingT, data []byte) (value any) {
	if data == nil {
		return nil
	}
	require.NoError(t, json.Unmarshal(data, &value), "%s", data)
	return value
}

// TestAnAnswerThatCannotBeWrittenIsAnHTTPError, and not an empty one.
func TestAnAnswerThatCannotBeWrittenIsAnHTTPError(t *testing.T) {
	rec := httptest.NewRecorder()
	require.Error(t, writeReview(rec, &answer{patch: podpatch.Patch{{Op: "add", Path: "/spec", Value: func() {}}}}))
	require.Equal(t, http.StatusInternalServerError, rec.Code)
	require.Contains(t, rec.Body.String(), noAnswer)
}

// TestTheFirstBufferOfAReviewCounts, as long as the review is not closed.
func TestTheFirstBufferOfAReviewCounts(t *testing.T) {
	in := newInbox(maxReading)
	b := in.open(func() {})
	data, err := readAll(strings.NewReader("{}"), 2, b)
	require.NoError(t, err)
	require.Equal(t, "{}", string(data))
	require.EqualValues(t, maxReading-firstRead, in.free)
	b.close()
	require.EqualValues(t, maxReading, in.free)
}
