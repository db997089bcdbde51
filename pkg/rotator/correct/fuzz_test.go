package correct

import (
	"slices"
	"strings"
	"testing"

	"github.com/servingcert/servingcert/test/bounded"
)

// FuzzEvidence: whatever a log says and names a pod gives, the evidence is one of its lines,
// which an event can repeat.
func FuzzEvidence(f *testing.F) {
	f.Add("unknown flag: --tls-cert-file\nUsage of app:\n", "tls-cert-file\x00APP_CERT", uint8(1))
	f.Add("usage: app [-h] [--tls-cert-file FILE]\r\n", "c", uint8(200))
	f.Add(strings.Repeat("--tls_cert-", 180), "\xff\x00a(b\x00-\x00"+strings.Repeat("a", 1000), uint8(255))
	f.Add("unknown a b c flag unknown a b c ", "\x00", uint8(60))
	f.Fuzz(func(t *testing.T, message, given string, times uint8) {
		message, names := strings.Repeat(message, int(times)+1), strings.Split(given, "\x00")
		if len(message) > 2<<10 {
			message = message[:2<<10] // no more is kept
		}
		var evidence Evidence
		var line string
		if err := bounded.Check(len(message)+len(given), func() { evidence, line = evidenceOf(message, names) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains([]Evidence{EvidenceNamed, EvidenceUsage, EvidenceSilent, EvidenceOther}, evidence) || !strings.Contains(message, line) {
			t.Fatalf("%q: %q", evidence, line)
		}
		if strings.ContainsFunc(quotable(line), func(r rune) bool { return r < ' ' }) || len([]rune(quotable(line))) > maxEvidence+1 {
			t.Fatalf("%q", quotable(line))
		}
	})
}
