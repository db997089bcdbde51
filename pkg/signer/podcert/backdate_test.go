package podcert

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

// The rotator measures by it how late a certificate was issued.
func TestHowFarACertificateIsBackdated(t *testing.T) {
	assert.Equal(t, pki.PodBackdate, backdate)
}
