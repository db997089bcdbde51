package controller

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/signer"
)

// notes is an event recorder that remembers the events that it got.
type notes []string

func (n *notes) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	*n = append(*n, strings.Join([]string{kind, reason, action, fmt.Sprintf(note, args...)}, " "))
}

func TestEvents(t *testing.T) {
	var n notes
	emit(&n, signer.Event{Service: service("web"), Type: "Warning", Reason: "InvalidAnnotation", Note: "100% wrong"})
	assert.Equal(t, notes{`Warning InvalidAnnotation Issue 100% wrong`}, n)
}

// The API server refuses an event with a note of more than 1024 bytes: then it
// would be reported to nobody.
func TestEventsFitTheirNote(t *testing.T) {
	for _, letter := range []string{"a", "ä", "€"} {
		for length := 900; length < 1100; length++ {
			var n notes
			emit(&n, signer.Event{Service: service("web"), Type: "Normal", Reason: "CertificateReissued", Note: strings.Repeat(letter, length)})
			_, note, _ := strings.Cut(n[0], actionIssue+" ")
			require.LessOrEqual(t, len(note), 1024)
			require.True(t, utf8.ValidString(note), "cut between letters")
		}
	}
}
