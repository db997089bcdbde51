package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTagOf(t *testing.T) {
	for image, tag := range map[string]string{
		"webhook": "", "webhook:v1": "v1", "example.com:5000/webhook": "", "example.com:5000/a/webhook:v1": "v1",
		"example.com/webhook:v1@sha256:00": "v1", "example.com/webhook@sha256:00": "", "": "",
	} {
		assert.Equal(t, tag, tagOf(image), image)
	}
}
