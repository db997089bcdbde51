package ca

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestParseRequest(t *testing.T) {
	ask := func(pairs ...string) Request {
		annotations := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			annotations[pairs[i]] = pairs[i+1]
		}
		return ParseRequest(annotations)
	}
	assert.Equal(t, Request{}, ask())
	assert.Equal(t, Request{}, ask(api.AnnotationRotateMode, "force"), "a mode alone asks for nothing")
	assert.Equal(t, Request{Mode: api.RotateOverlap, Reason: "x"}, ask(api.AnnotationRotate, "x"))
	assert.Equal(t, Request{Mode: api.RotateDistrust, Reason: "x"}, ask(api.AnnotationRotate, "x", api.AnnotationRotateMode, "distrust-now"))
	assert.Equal(t, 3, ask(api.AnnotationPromoteDespite, "3").PromoteDespite)
	assert.Zero(t, ask(api.AnnotationPromoteDespite, "all").PromoteDespite)
	for reason, want := range map[string]string{"two\nlines": "one line", string(make([]byte, 201)): "longer than 200"} {
		r := ask(api.AnnotationRotate, reason)
		assert.ErrorContains(t, r.Wrong, want)
		assert.False(t, r.open(""))
	}
}
