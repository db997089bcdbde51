package admission

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/mutate"
)

// text draws what a JSON string may have to escape, and what is not UTF-8.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-z<>&"\\/~=\x00-\x1f\x7f\x{2028}\x{1d11e}-]{0,8}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
	)
}

// TestPatchesAreWrittenAsEncodingJSONWritesThem: whatever the values of the operations.
func TestPatchesAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	mount := rapid.Custom(func(t *rapid.T) corev1.VolumeMount {
		m := corev1.VolumeMount{Name: text().Draw(t, "name"), MountPath: text().Draw(t, "path"), ReadOnly: rapid.Bool().Draw(t, "read-only")}
		m.SubPath = rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "subPath")
		return m
	})
	variable := rapid.Custom(func(t *rapid.T) corev1.EnvVar {
		v := corev1.EnvVar{Name: text().Draw(t, "name"), Value: text().Draw(t, "value")}
		if rapid.Bool().Draw(t, "from") {
			v.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "a"}}
		}
		return v
	})
	volume := rapid.Custom(func(t *rapid.T) corev1.Volume {
		v := corev1.Volume{Name: text().Draw(t, "name")}
		if rapid.Bool().Draw(t, "projected") {
			v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: text().Draw(t, "secret")},
			}}}}
		}
		if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: "Memory"}
		}
		return v
	})
	value := rapid.OneOf(
		rapid.Just(any(nil)), text().AsAny(), rapid.SliceOfN(text(), 1, 3).AsAny(), rapid.MapOfN(text(), text(), 1, 3).AsAny(),
		mount.AsAny(), rapid.SliceOfN(mount, 1, 2).AsAny(), variable.AsAny(), rapid.SliceOfN(variable, 1, 3).AsAny(),
		rapid.Just(any(corev1.URISchemeHTTPS)), rapid.Just(any([]corev1.Volume{{Name: "a"}})), volume.AsAny(),
	)
	operation := rapid.Custom(func(t *rapid.T) mutate.Operation {
		return mutate.Operation{Op: text().Draw(t, "op"), Path: text().Draw(t, "path"), Value: value.Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		patch := mutate.Patch(rapid.SliceOfN(operation, 0, 4).Draw(t, "patch"))
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
	require.Error(t, writeReview(rec, &answer{patch: mutate.Patch{{Op: "add", Path: "/spec", Value: func() {}}}}))
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
