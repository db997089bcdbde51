package admission

import (
	"encoding/base64"
	"encoding/json"
	"encoding/json/jsontext"
	"maps"
	"net/http"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate/podpatch"
)

// What a review is answered with has few forms, and most of it is text. It is appended to
// one buffer: encoding/json would look up each type, and copy patch and answer on the way.
// What is not ordinary is left to encoding/json. How volumes are written is in
// volume.go.

// answer is an AdmissionResponse whose patch is not written yet.
type answer struct {
	admissionv1.AdmissionResponse // without Patch and PatchType

	patch podpatch.Patch // empty if the pod stays as it is
}

// writeReview answers with the AdmissionReview that has the response, or with an HTTP error
// if that cannot be written as JSON.
func writeReview(w http.ResponseWriter, a *answer) error {
	buffer, forPatch := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer func() {
		buffers.Put(buffer)
		buffers.Put(forPatch)
	}()
	patch, err := appendPatch((*forPatch)[:0], a.patch)
	var data []byte
	if err == nil {
		data, err = appendReview((*buffer)[:0], &a.AdmissionResponse, patch)
	}
	if err != nil {
		http.Error(w, noAnswer+"write the answer: "+err.Error(), http.StatusInternalServerError)
		return err
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data))) // or it is sent in chunks
	_, err = w.Write(data)
	return err
}

// appendReview appends the AdmissionReview (admission.k8s.io/v1) that has the response and
// the JSON patch, which may be empty.
func appendReview(dst []byte, resp *admissionv1.AdmissionResponse, patch []byte) ([]byte, error) {
	dst = append(dst, `{"apiVersion":"`+apiVersion+`","kind":"AdmissionReview","response":{"uid":`...)
	dst = appendText(dst, string(resp.UID))
	dst = append(dst, `,"allowed":`...)
	dst = strconv.AppendBool(dst, resp.Allowed)
	if resp.Result != nil {
		var err error
		if dst, err = appendAny(append(dst, `,"status":`...), resp.Result); err != nil {
			return nil, err
		}
	}
	if len(patch) > 0 {
		dst = append(dst, `,"patchType":"`+string(admissionv1.PatchTypeJSONPatch)+`","patch":"`...)
		dst = append(base64.StdEncoding.AppendEncode(dst, patch), '"')
	}
	if len(resp.AuditAnnotations) > 0 {
		dst = appendTexts(append(dst, `,"auditAnnotations":`...), resp.AuditAnnotations)
	}
	if len(resp.Warnings) > 0 {
		dst = appendList(append(dst, `,"warnings":`...), resp.Warnings)
	}
	return append(dst, "}}"...), nil
}

// appendPatch appends what patch.JSON returns; text may be escaped in another way.
func appendPatch(dst []byte, patch podpatch.Patch) ([]byte, error) {
	if len(patch) == 0 {
		return dst, nil
	}
	for i, o := range patch {
		dst = append(dst, "[,"[min(i, 1)])
		dst = appendText(append(dst, `{"op":`...), o.Op)
		dst = appendText(append(dst, `,"path":`...), o.Path)
		if o.Value != nil {
			var err error
			if dst, err = appendValue(append(dst, `,"value":`...), o.Value); err != nil {
				return nil, err
			}
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

// appendValue appends the value of an operation.
func appendValue(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return appendText(dst, v), nil
	case []string:
		return appendList(dst, v), nil
	case map[string]string:
		return appendTexts(dst, v), nil
	case corev1.Volume:
		return appendVolume(dst, v)
	case []corev1.Volume:
		return appendEach(dst, v, appendVolume)
	case corev1.VolumeMount:
		return appendMount(dst, v)
	case []corev1.VolumeMount:
		return appendEach(dst, v, appendMount)
	case corev1.EnvVar:
		return appendVariable(dst, v)
	case []corev1.EnvVar:
		return appendEach(dst, v, appendVariable)
	}
	return appendAny(dst, value)
}

// appendEach appends a list whose elements one appends.
func appendEach[T any](dst []byte, list []T, one func([]byte, T) ([]byte, error)) ([]byte, error) {
	if list == nil {
		return appendAny(dst, list)
	}
	dst = append(dst, '[')
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = one(dst, element); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendVariable appends a variable.
func appendVariable(dst []byte, v corev1.EnvVar) ([]byte, error) {
	if v.Value == "" || v.ValueFrom != nil {
		return appendAny(dst, v)
	}
	dst = appendText(append(dst, `{"name":`...), v.Name)
	dst = appendText(append(dst, `,"value":`...), v.Value)
	return append(dst, '}'), nil
}

// appendAny appends what encoding/json makes of the value.
func appendAny(dst []byte, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	return append(dst, data...), err
}

// appendList appends a list of texts.
func appendList(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, text := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, text)
	}
	return append(dst, ']')
}

// appendTexts appends an object of texts, sorted by their names.
func appendTexts(dst []byte, texts map[string]string) []byte {
	names := slices.AppendSeq(make([]string, 0, len(texts)), maps.Keys(texts)) // most have one
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, name), ':')
		dst = appendText(dst, texts[name])
	}
	return append(dst, '}')
}

// appendText appends a text as a JSON string. As in encoding/json, what is not UTF-8 is
// replaced; that is the only error.
func appendText(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}
