package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/mutate"
)

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
	Object      mutate.PodView              `json:"object"`
}

// receive reads the body of a review. An error comes with its HTTP status.
func receive(w http.ResponseWriter, r *http.Request, b *body) ([]byte, int, error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: must be application/json", r.Header.Get("Content-Type"))
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

// parse returns the request of a review. An error comes with its HTTP status.
func parse(data []byte) (*request, int, error) {
	if valuesIn(data) > maxValues {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("read the review: it has more than %d values", maxValues)
	}
	var review struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Request    *request `json:"request"`
	}
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return nil, http.StatusBadRequest, fmt.Errorf("apiVersion %q, kind %q: must be %q, \"AdmissionReview\"", review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
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

// valuesIn returns about how many values a text in JSON has, one or two for each.
func valuesIn(data []byte) int {
	values := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case ',', '[', '{':
			values++
		}
	}
	return values
}

func writeReview(w http.ResponseWriter, resp *admissionv1.AdmissionResponse) error {
	data, err := json.Marshal(struct {
		APIVersion string                         `json:"apiVersion"`
		Kind       string                         `json:"kind"`
		Response   *admissionv1.AdmissionResponse `json:"response"`
	}{admissionv1.SchemeGroupVersion.String(), "AdmissionReview", resp})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}
