package admission

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate"
)

// What a review is answered with has few forms, and most of it is text. It is appended to
// one buffer: encoding/json would look up each type, and copy patch and answer on the way.
// What is not ordinary is left to encoding/json.

// writeReview answers with the AdmissionReview that has the response.
func writeReview(w http.ResponseWriter, resp *admissionv1.AdmissionResponse) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	data, err := appendReview((*buffer)[:0], resp)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data))) // or it is sent in chunks
	_, err = w.Write(data)
	return err
}

// appendReview appends the AdmissionReview (admission.k8s.io/v1) that has the response.
func appendReview(dst []byte, resp *admissionv1.AdmissionResponse) ([]byte, error) {
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
	if len(resp.Patch) > 0 {
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"patch":"`...), resp.Patch)
		dst = append(dst, '"')
	}
	if resp.PatchType != nil {
		dst = appendText(append(dst, `,"patchType":`...), string(*resp.PatchType))
	}
	if len(resp.AuditAnnotations) > 0 {
		dst = appendTexts(append(dst, `,"auditAnnotations":`...), resp.AuditAnnotations)
	}
	if len(resp.Warnings) > 0 {
		dst = appendList(append(dst, `,"warnings":`...), resp.Warnings)
	}
	return append(dst, "}}"...), nil
}

// patchRoom is how many bytes the patch of an ordinary pod has, with some to spare.
const patchRoom = 1 << 11

// patchJSON returns what patch.JSON returns: text may be escaped in another way.
func patchJSON(patch mutate.Patch) ([]byte, error) {
	if len(patch) == 0 {
		return nil, nil
	}
	dst := append(make([]byte, 0, patchRoom), '[')
	for i, o := range patch {
		if i > 0 {
			dst = append(dst, ',')
		}
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
	case corev1.EnvVar:
		return appendVariable(dst, v)
	case []corev1.EnvVar:
		var err error
		dst = append(dst, '[')
		for i, variable := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendVariable(dst, variable); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
	return appendAny(dst, value)
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
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(texts)) {
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
