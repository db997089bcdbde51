package api

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestTranslate(t *testing.T) {
	ours, beta, alpha := AnnotationSecretName, OpenShiftSecretName, OpenShiftSecretNameAlpha
	for name, c := range map[string]struct {
		has    map[string]string
		secret string
		asks   bool
		from   string
	}{
		"none":                      {map[string]string{"a": "b"}, "", false, ""},
		"beta":                      {map[string]string{beta: "b-tls"}, "b-tls", true, beta},
		"alpha":                     {map[string]string{alpha: "a-tls"}, "a-tls", true, alpha},
		"beta over alpha":           {map[string]string{beta: "b-tls", alpha: "a-tls"}, "b-tls", true, beta},
		"an empty beta is none":     {map[string]string{beta: "", alpha: "a-tls"}, "a-tls", true, alpha},
		"empty ones ask nothing":    {map[string]string{beta: "", alpha: ""}, "", false, ""},
		"ours over all":             {map[string]string{ours: "o-tls", beta: "b-tls", alpha: "a-tls"}, "o-tls", true, ""},
		"ours, of the same name":    {map[string]string{ours: "x-tls", beta: "x-tls"}, "x-tls", true, ""},
		"ours, wrong, is a mistake": {map[string]string{ours: "", beta: "b-tls"}, "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			svc := service()
			svc.Annotations = maps.Clone(c.has)
			got := Translate(svc)
			secret, asks := Wants(got)
			assert.Equal(t, c.secret, secret)
			assert.Equal(t, c.asks, asks)
			assert.Equal(t, c.from, OpenShiftAnnotation(got))
			assert.Equal(t, c.has, svc.Annotations, "the original is another's")
			assert.Equal(t, got, Translate(got), "once is enough")
			assert.Equal(t, c.from, OpenShiftAnnotation(StripService(got, Keep{OpenShiftAnnotation: true})))
		})
	}
	t.Run("without being translated they mean nothing", func(t *testing.T) {
		svc := service()
		svc.Annotations = map[string]string{beta: "b-tls", alpha: "a-tls"}
		_, asks := Wants(svc)
		assert.False(t, asks)
		assert.Empty(t, OpenShiftAnnotation(svc))
		for _, m := range []mark{markTranslated, markTooLarge} {
			assert.NotEmpty(t, validation.IsQualifiedName(string(m)), "an API server accepts %q", m)
		}
	})
	t.Run("an error names the annotation that was written", func(t *testing.T) {
		for _, key := range []string{beta, alpha} {
			svc := service()
			svc.Annotations = map[string]string{key: "A_B"}
			_, err := Parse(Translate(svc), DefaultLimits())
			require.ErrorContains(t, err, key+`: "A_B": not a valid Secret name`)
			svc.Annotations[key], svc.Spec.Selector = ConventionalSecretName, nil
			_, err = Parse(Translate(svc), DefaultLimits())
			require.ErrorContains(t, err, key+`: "serving-cert": every pod`)
		}
	})
}
