package correct

import (
	"strings"
	"unicode"

	"github.com/servingcert/servingcert/pkg/api"
)

// Evidence is what the end of a program's log says about why it exited.
type Evidence string

// The evidence.
const (
	EvidenceNamed  Evidence = "named"  // it names what the attempt gave
	EvidenceUsage  Evidence = "usage"  // it complains about its command line, or of a file of the certificate
	EvidenceSilent Evidence = "silent" // there is no text
	EvidenceOther  Evidence = "other"  // it says something else
)

// evidenceOf returns what a termination message says, and the line that says it. given
// are the names, without dashes, of the flags and variables of the attempt.
func evidenceOf(message string, given []string) (Evidence, string) {
	looked := wordsOf(append([]string{api.DefaultCertFlag[2:], api.DefaultKeyFlag[2:]}, given...))
	lines := linesOf(message)
	if strings.TrimSpace(message) == "" {
		return EvidenceSilent, ""
	}
	evidence, line, known := looked.evidence(lines)
	if evidence == EvidenceOther {
		evidence, line = looked.complaint(lines, known)
	}
	return evidence, line
}

// linesOf returns the lines of a message, each once: what a program repeats says nothing more.
func linesOf(message string) []string {
	var lines []string
	seen := map[string]bool{}
	for line := range strings.FieldsFuncSeq(message, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return lines
}

// evidence returns what the lines say that have the flag or a file of the certificate in them, and
// whether the program knows the flag, as one does that lists it in its help.
func (w words) evidence(lines []string) (e Evidence, evident string, known bool) {
	complained := "" // a line about some trouble that has the flag in it, and no other one, or a file
	for _, line := range lines {
		switch named, withPath := w.in(line); {
		case !named:
			if complained == "" && refusesFile(line) {
				complained = line
			}
		case w.refused(line):
			return EvidenceNamed, line, known
		case helps(line):
			known = true
		case deprecated.MatchString(line):
		case !withPath && !benign(line):
			return EvidenceNamed, line, known
		case withPath && complained == "" && troubled.MatchString(line) && w.alone(line):
			complained = line
		}
	}
	if complained != "" {
		return EvidenceUsage, complained, known
	}
	return EvidenceOther, "", known
}

// complaint returns what the lines say of the command line as a whole, without naming what was
// given. A program that knows the flag may print its help for another reason.
func (w words) complaint(lines []string, known bool) (Evidence, string) {
	for _, line := range lines {
		if complains(line) {
			if w.another(line) {
				return EvidenceOther, "" // it is about that flag
			}
			return EvidenceUsage, line
		}
	}
	if !known {
		for _, line := range lines {
			if usage.MatchString(line) || advice.MatchString(line) {
				return EvidenceUsage, line
			}
		}
	}
	return EvidenceOther, ""
}

// maxEvidence bounds what is repeated of a log, in characters. It is one line, never
// more: a log may hold what is not for everybody who reads events.
const maxEvidence = 200

// quotable returns the line as an event may repeat it.
func quotable(line string) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line, " "))
	return api.Shorten(strings.TrimSpace(line), maxEvidence)
}
