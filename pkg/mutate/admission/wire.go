package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/mutate/decode"
)

// apiVersion is that of the reviews.
const apiVersion = admissionv1.GroupName + "/v1"

// request is the part of an AdmissionRequest (admission.k8s.io/v1) that is used. The
// pod is decoded with it: decoding it again from a raw copy would cost as much as all
// the rest.
type request struct {
	UID         types.UID                   `json:"uid"`
	Operation   admissionv1.Operation       `json:"operation"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Namespace   string                      `json:"namespace"`
	Name        string                      `json:"name"`
	Object      decode.View                 `json:"object"`
}

// receive reads the body of a review. An error comes with its HTTP status.
func receive(w http.ResponseWriter, r *http.Request, b *body) ([]byte, int, error) {
	if contentType := r.Header.Get("Content-Type"); !isJSON(contentType) {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: must be application/json", contentType)
	}
	if r.ContentLength > maxReview {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("read the review: %d bytes: must be at most %d", r.ContentLength, maxReview)
	}
	data, err := readAll(http.MaxBytesReader(w, r.Body, maxReview), r.ContentLength, b)
	if err != nil {
		return nil, statusOf(err), fmt.Errorf("read the review: %w", err)
	}
	return data, http.StatusOK, nil
}

const jsonType = "application/json"

// isJSON reports whether a content type is that of JSON, with any parameters.
func isJSON(contentType string) bool {
	if contentType == jsonType {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == jsonType
}

// parse returns the request of a review. An error comes with its HTTP status.
func parse(data []byte) (*request, int, error) {
	if status, err := checkShape(data); err != nil {
		return nil, status, fmt.Errorf("read the review: %w", err)
	}
	var review struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Request    *request `json:"request"`
	}
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != apiVersion {
		return nil, http.StatusBadRequest, fmt.Errorf("apiVersion %q, kind %q: must be %q, \"AdmissionReview\"", review.APIVersion, review.Kind, apiVersion)
	}
	if review.Request == nil {
		return nil, http.StatusBadRequest, errors.New("the review has no request")
	}
	return review.Request, http.StatusOK, nil
}

// statusOf returns the HTTP status for an error of reading a body.
func statusOf(err error) int {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, new(*tooManyError)):
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}

// checkShape returns an error, with its HTTP status, if the bytes of a review would be decoded
// to more than a review may have.
func checkShape(data []byte) (status int, err error) {
	if isSmall(data) {
		return http.StatusOK, nil
	}
	shape := shapeOf(data)
	if shape.values > maxValues {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("it has more than %d values", maxValues)
	}
	if shape.longest > decode.MaxElements {
		return http.StatusBadRequest, checkLists(data)
	}
	return http.StatusOK, nil
}

// isSmall reports whether the shape of the bytes cannot be beyond a limit, whatever it is:
// each value takes a byte, and each element of a list after the first a comma.
func isSmall(data []byte) bool {
	return len(data) <= maxValues && bytes.Count(data, []byte{','}) < decode.MaxElements
}

// checkLists returns an error if a list of the pod is too long to be decoded.
func checkLists(data []byte) error {
	var review struct {
		Request struct {
			Object decode.Lists `json:"object"`
		} `json:"request"`
	}
	return json.Unmarshal(data, &review)
}

// shape is what a look at a review's bytes shows of what they would be decoded to.
type shape struct {
	// values is about how many values there are, one or two for each.
	values int
	// longest is the most elements of a list or an object that is as deep as the
	// containers of the pod.
	longest int
}

// listDepth is how many lists and objects hold an element of the pod's containers:
// the review, its request, the object, its spec, and the list.
const listDepth = 5

func shapeOf(data []byte) shape {
	var s shape
	depth, elements := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			s.values++
			if depth++; depth == listDepth {
				elements = 1
			}
		case ']', '}':
			depth--
		case ',':
			s.values++
			if depth == listDepth {
				elements++
				s.longest = max(s.longest, elements)
			}
		}
	}
	return s
}
