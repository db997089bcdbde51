package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// FormatAnnotations returns the annotations of a Service or a pod that request formats: the one
// that lists them, then those of single formats, in the order of the list.
func FormatAnnotations() []string {
	keys := []string{AnnotationFormats}
	for f := range formats.All().Formats() {
		if f.Annotation != "" {
			keys = append(keys, Domain+"/"+f.Annotation)
		}
	}
	return keys
}

// asksForFormat reports whether the annotation is one of FormatAnnotations. Caches call it for
// every annotation.
func asksForFormat(key string) bool {
	name, ok := strings.CutPrefix(key, Domain+"/")
	if !ok {
		return false
	}
	for f := range formats.All().Formats() {
		if f.Annotation != "" && name == f.Annotation {
			return true
		}
	}
	return key == AnnotationFormats
}

// Variables returns the environment variables that a container may get.
func Variables() []string {
	names := []string{EnvCertFile, EnvKeyFile, EnvCAFile}
	for f := range formats.All().Formats() {
		if f.Variable != "" {
			names = append(names, f.Variable)
		}
	}
	return append(names, EnvKeystorePassword, EnvIdentityFolder, EnvIdentityCertFile, EnvIdentityKeyFile, EnvIdentityCAFile)
}

// FormatsOf returns the formats that the Service requests for its Secret, and those whose annotation
// is not valid, so that it is not known whether pods need them; Parse refuses such a Service.
func FormatsOf(svc *corev1.Service) (asked, mistaken formats.Set) {
	for _, key := range FormatAnnotations() {
		if value, ok := svc.Annotations[key]; ok {
			set, detail := parseFormats(key, value)
			if asked |= set; detail != "" {
				mistaken |= formatsBy(key)
			}
		}
	}
	return asked, mistaken &^ asked
}

// formatsBy returns the formats that the annotation can request.
func formatsBy(key string) formats.Set {
	if key == AnnotationFormats {
		return formats.All()
	}
	var set formats.Set
	for f := range formats.All().Formats() {
		if key == Domain+"/"+f.Annotation {
			set |= formats.Of(f)
		}
	}
	return set
}

// parseFormats returns the formats that the annotation requests, and what is wrong with its value,
// or "".
func parseFormats(key, value string) (set formats.Set, detail string) {
	detail = checkShape(key, value)
	switch {
	case key != AnnotationFormats:
		if value == "true" {
			set = formatsBy(key)
		}
	case len(value) <= maxValue:
		for _, word := range splitNames(value) {
			if f := formatOf(word); f != nil {
				set |= formats.Of(f)
			}
		}
	}
	return set, detail
}

// formatOf returns the format of the word, or nil.
func formatOf(word string) *formats.Format {
	for f := range formats.All().Formats() {
		if f.Word == word {
			return f
		}
	}
	return nil
}

// formatWords returns the words of all formats, sorted.
func formatWords() []string {
	var words []string
	for f := range formats.All().Formats() {
		words = append(words, f.Word)
	}
	slices.Sort(words)
	return words
}

// unknownFormat returns what is wrong with the first word in a list that is not a format, or "".
func unknownFormat(list string) string {
	words := splitNames(list)
	i := slices.IndexFunc(words, func(word string) bool { return formatOf(word) == nil })
	if i < 0 {
		return ""
	}
	word, reason := words[i], "is not a format"
	if word == "jks" || strings.HasSuffix(word, ".jks") {
		reason = "is not supported: Java reads " + formats.KeystoreFile + " (Java 8 since 8u301, Java 11 since 11.0.12)"
	}
	return fmt.Sprintf("%q %s: must be a comma-separated list of %s", Shorten(word, maxShownValue), reason, listed(formatWords()))
}

// PasswordOf returns the password of the files that the Service requests for its Secret: empty if
// none of them has one, or if the password is not valid.
func PasswordOf(svc *corev1.Service) string {
	if asked, _ := FormatsOf(svc); asked&formats.Encrypted() == 0 {
		return ""
	}
	switch value, ok := svc.Annotations[AnnotationKeystorePassword]; {
	case !ok:
		return formats.DefaultPassword
	case checkShape(AnnotationKeystorePassword, value) != "":
		return ""
	default:
		return value
	}
}

// hidden returns what an error shows instead of a password.
func hidden(password string) string { return fmt.Sprintf("%d bytes", len(password)) }

// requestFormats returns a step of Parse for each annotation.
func requestFormats() []requestStep {
	steps := []requestStep{(*Request).parsePassword}
	for _, key := range FormatAnnotations() {
		steps = append(steps, func(r *Request, svc *corev1.Service, _ Limits) error {
			value, ok := svc.Annotations[key]
			if !ok {
				return nil
			}
			set, detail := parseFormats(key, value)
			if detail == "" && r.KeySource == KeySourcePod {
				detail = notWithPodKeys(set)
			}
			if detail == "" {
				detail = notWithKey(set, r.Params.KeyAlgorithm)
			}
			if detail != "" {
				return &FieldError{key, value, detail}
			}
			r.Formats |= set
			return nil
		})
	}
	return steps
}

// notWithKey returns which of the formats cannot have a key of the algorithm, and why, or "".
func notWithKey(set formats.Set, algorithm pki.KeyAlgorithm) string {
	if refused := set & formats.Encrypted() &^ formats.OfRoots(); refused != 0 && algorithm.IsMLDSA() {
		return fmt.Sprintf("%s cannot be made of a key of type %s, which Java's TLS does not support: requires another %s", strings.Join(refused.Files(), " and "), algorithm, AnnotationKeyAlgorithm)
	}
	return ""
}

// notWithPodKeys returns which of the formats are not available to pods that make their keys, and
// why, or "".
func notWithPodKeys(set formats.Set) string {
	refused := set &^ formats.CredentialBundles()
	why := " cannot be made of a key that never leaves its pod"
	if roots := refused & formats.OfRoots(); roots != 0 && refused == roots {
		why = " is written into Secrets, but pods that make their keys have no Secret"
	}
	if refused == 0 {
		return ""
	}
	return strings.Join(refused.Files(), " and ") + why + ": requires " + AnnotationKeySource + ": " + string(KeySourceSecret)
}

func (r *Request) parsePassword(svc *corev1.Service, _ Limits) error {
	if value, ok := svc.Annotations[AnnotationKeystorePassword]; ok {
		if detail := checkShape(AnnotationKeystorePassword, value); detail != "" {
			return &FieldError{AnnotationKeystorePassword, hidden(value), detail}
		}
	}
	r.Password = PasswordOf(svc)
	return nil
}

// podFormats returns the annotations of pods that request a format.
func podFormats() []podAnnotation {
	var annotations []podAnnotation
	for _, key := range FormatAnnotations() {
		annotations = append(annotations, podAnnotation{key, func(r *PodRequest, v string) string {
			set, detail := parseFormats(key, v)
			r.Formats |= set & formats.Asked()
			return detail
		}})
	}
	return annotations
}
