package controller

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

func notReady(reason signer.Reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: string(reason), Message: message}
}

// notes is an event recorder that remembers what it was told.
type notes []string

func (n *notes) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	*n = append(*n, strings.Join([]string{kind, reason, action, fmt.Sprintf(note, args...)}, " "))
}

func TestEvents(t *testing.T) {
	var n notes
	emit(&n, signer.Reissued(service("web"), "web-tls", signer.ReasonDue, "due for renewal since then"))
	emit(&n, signer.RenewalFailed(service("web"), "web-tls", "the CA is lost"))
	emit(&n, signer.NotReady(service("web"), notReady(signer.ReasonInvalid, "that is no duration")))
	assert.Equal(t, notes{
		`Normal CertificateReissued Issue RenewalDue: Secret "web-tls" has a new certificate: due for renewal since then`,
		`Warning RenewalFailed Issue Secret "web-tls" keeps the certificate it has: the CA is lost`,
		`Warning InvalidAnnotation Issue that is no duration`,
	}, n)
}

// The API server refuses an event with a note of more than 1024 bytes: then it
// would be told of to nobody.
func TestEventsFitTheirNote(t *testing.T) {
	for _, letter := range []string{"a", "ä", "€"} {
		for length := 900; length < 1100; length++ {
			text := strings.Repeat(letter, length)
			name := strings.Repeat("s", 253)
			for _, emit := range []func(n *notes){
				func(n *notes) { emit(n, signer.Reissued(service("web"), name, signer.ReasonNames, text)) },
				func(n *notes) { emit(n, signer.RenewalFailed(service("web"), name, text)) },
				func(n *notes) { emit(n, signer.NotReady(service("web"), notReady(signer.ReasonInvalid, text))) },
			} {
				var n notes
				emit(&n)
				_, note, _ := strings.Cut(n[0], actionIssue+" ")
				require.LessOrEqual(t, len(note), 1024)
				require.True(t, utf8.ValidString(note), "cut between letters")
			}
		}
	}
}
