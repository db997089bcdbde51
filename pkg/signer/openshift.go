package signer

import (
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// What OpenShift's service-ca writes beside a certificate, and we for a Service
// that asks in its words. None of it is ever read back to decide about a
// certificate; it is only compared with what it is to be.

// openShiftOnSecrets and OpenShiftOnServices are the annotations.
var (
	openShiftOnSecrets = []string{
		api.OpenShiftServiceName, api.OpenShiftServiceNameAlpha, api.OpenShiftServiceUID, api.OpenShiftServiceUIDAlpha,
		api.OpenShiftExpiry, api.OpenShiftExpiryAlpha,
	}
	OpenShiftOnServices = []string{
		api.OpenShiftSignedBy, api.OpenShiftSignedByAlpha,
		api.OpenShiftError, api.OpenShiftErrorAlpha, api.OpenShiftErrorNum, api.OpenShiftErrorNumAlpha,
	}
)

// Only returns the annotations with the keys, nil if there are none.
func Only(annotations map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, ok := annotations[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// secretWords returns what is to be on the Secret: whose it is, in the form of the
// word that was asked with, and when it ends in both; nil if nobody asks in these
// words. Of several Services it is the oldest's, as the owners are in order.
func secretWords(members []*corev1.Service, notAfter time.Time) map[string]string {
	for _, svc := range members {
		word := api.OpenShiftWord(svc)
		if word == "" {
			continue
		}
		ends := notAfter.UTC().Format(time.RFC3339)
		words := map[string]string{api.OpenShiftExpiry: ends, api.OpenShiftExpiryAlpha: ends}
		if word == api.OpenShiftSecretNameAlpha {
			words[api.OpenShiftServiceNameAlpha], words[api.OpenShiftServiceUIDAlpha] = svc.Name, string(svc.UID)
		} else {
			words[api.OpenShiftServiceName], words[api.OpenShiftServiceUID] = svc.Name, string(svc.UID)
		}
		return words
	}
	return nil
}

// hasOtherWords reports whether the Secret lacks any of the words or has others.
func hasOtherWords(s Situation, d Decision) bool {
	return s.OpenShift && !maps.Equal(s.Secret.Words, secretWords(d.Members, s.Secret.Leaf.NotAfter))
}

// SecretAnnotations returns what is to be written of the Secret's annotations
// with its certificate, or with that which is issued; nil for what is to go.
func SecretAnnotations(s Situation, d Decision, issued *Issued) map[string]any {
	annotations := map[string]any{}
	if s.OpenShift {
		words := WordsAfter(s, d, issued)
		if s.Secret != nil {
			for key := range s.Secret.Words {
				annotations[key] = nil
			}
		}
		for key, value := range words {
			annotations[key] = value
		}
	}
	if issued != nil && !issued.RenewedAfter.IsZero() {
		annotations[api.AnnotationRenewedAfter] = issued.RenewedAfter.Format(time.RFC3339)
	}
	return annotations
}

// WordsAfter is what the Secret has of these words once it was written.
func WordsAfter(s Situation, d Decision, issued *Issued) map[string]string {
	switch {
	case !s.OpenShift && s.Secret == nil:
		return nil
	case !s.OpenShift:
		return s.Secret.Words
	case issued != nil:
		return secretWords(d.Members, issued.Leaf.NotAfter)
	}
	return secretWords(d.Members, s.Secret.Leaf.NotAfter)
}

// ServiceWords returns what is to be written of the Service's annotations beside
// the condition, nil for what is to go; nothing if has is as it is to be. service-ca
// counts attempts and gives up after ten. Here the number is of different errors
// in a row, so that it costs no write of its own, and nobody gives up.
func ServiceWords(s Situation, d Decision, svc *corev1.Service, ready *metav1.Condition, has map[string]string) map[string]any {
	if api.OpenShiftWord(svc) == "" || ready == nil {
		return nil
	}
	want := map[string]string{}
	set := func(value string, keys ...string) {
		for _, key := range keys {
			want[key] = value
		}
	}
	if by := signedBy(s); by != "" {
		set(by, api.OpenShiftSignedBy, api.OpenShiftSignedByAlpha)
	}
	if ready.Status != metav1.ConditionTrue && !(ready.Reason == string(ReasonWaiting) && d.Verdict.Leaf != "") {
		set(ready.Message, api.OpenShiftError, api.OpenShiftErrorAlpha)
		set(strconv.Itoa(errorNumber(has, ready.Message)), api.OpenShiftErrorNum, api.OpenShiftErrorNumAlpha)
	}
	patch := map[string]any{}
	for _, key := range OpenShiftOnServices {
		value, wanted := want[key]
		old, there := has[key]
		switch {
		case wanted && (!there || old != value):
			patch[key] = value
		case !wanted && there && !slices.Contains([]string{api.OpenShiftSignedBy, api.OpenShiftSignedByAlpha}, key):
			patch[key] = nil
		}
	}
	return patch
}

// signedBy returns the common name of the CA that signed what is in the Secret,
// empty if that is not known.
func signedBy(s Situation) string {
	if s.Secret == nil || s.Authority == nil {
		return ""
	}
	issuer := s.Secret.SignedBy(s.Authority)
	if issuer == nil {
		return ""
	}
	return NameOfCA(issuer)
}

func errorNumber(has map[string]string, message string) int {
	n, err := strconv.Atoi(has[api.OpenShiftErrorNum])
	if err != nil || n < 1 {
		n = 0
	}
	if n > 0 && has[api.OpenShiftError] == message {
		return n
	}
	return n + 1
}
