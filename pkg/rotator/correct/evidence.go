package correct

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/servingcert/servingcert/pkg/api"
)

// Evidence is what the end of a program's log says about why it exited.
type Evidence string

// The evidence.
const (
	EvidenceNamed  Evidence = "named"  // it names what the attempt gave
	EvidenceUsage  Evidence = "usage"  // it complains about its command line
	EvidenceSilent Evidence = "silent" // there is no text
	EvidenceOther  Evidence = "other"  // it says something else
)

// evidenceOf returns what a termination message says, and the line that says it. given
// are the names, without dashes, of the flags and variables of the attempt.
func evidenceOf(message string, given []string) (Evidence, string) {
	looked := wordsOf(append([]string{api.DefaultCertFlag[2:], api.DefaultKeyFlag[2:]}, given...))
	lines := strings.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == '\r' })
	if strings.TrimSpace(message) == "" {
		return EvidenceSilent, ""
	}
	known := false // a program that lists the flag in its help knows it
	for _, line := range lines {
		switch named, withPath := looked.in(line); {
		case !named:
		case helps(line):
			known = true
		case !deprecated.MatchString(line) && (!withPath || complaint.MatchString(line)):
			return EvidenceNamed, line
		}
	}
	for _, line := range lines {
		if complains(line) {
			if namesAnother(line) {
				return EvidenceOther, "" // it is about that flag
			}
			return EvidenceUsage, line
		}
	}
	if !known {
		for _, line := range lines {
			if usage.MatchString(line) {
				return EvidenceUsage, line
			}
		}
	}
	return EvidenceOther, ""
}

// helps reports whether the line is one of a help text: it lists an option, or all.
func helps(line string) bool { return listed.MatchString(line) || usage.MatchString(line) }

// listed matches an option in a help text. One that a colon follows is complained about.
var listed = regexp.MustCompile(`^\s*\[?--?[A-Za-z][0-9A-Za-z_.-]*([^:0-9A-Za-z_.-]|$)`)

// deprecated matches what a program says of a flag that it knows.
var deprecated = regexp.MustCompile(`(?i)\bdeprecated\b`)

// complaint matches what a line says about something that a program does not know. A
// line without such a word may repeat the command line.
var complaint = regexp.MustCompile(`(?i)\b(unknown|unrecogni[sz]ed|unexpected|undefined|unsupported|invalid|illegal|bad|extraneous|no such|not recogni[sz]ed|not defined|not an option|wasn't expected|does not exist|could not find)\b`)

// Complaints about a command line. The texts of the programs and libraries from which
// they are taken are in the tests.
var complaints = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(unknown|unrecogni[sz]ed|unexpected|undefined|unsupported|invalid|illegal|bad|extra|no such)( [a-z]+){0,3} (flags?|options?|switch(es)?|parameters?|predicate|directive)\b`),
	regexp.MustCompile(`(?i)\b(unknown|unrecogni[sz]ed|unexpected|unsupported|illegal|bad|extra|no such)( [a-z]+){0,3} (commands?|subcommands?|arguments?|args?)\b`),
	regexp.MustCompile(`(?i)\binvalid (command[- ]line )?arguments?:? *['"\x60-]`), // "invalid argument" alone is an error of the kernel
	regexp.MustCompile(`(?i)\bflag provided but not defined\b`),
	regexp.MustCompile(`(?i)\b(flag|option|argument|parameter)s? .*\b(is unknown|not recogni[sz]ed|does not exist|wasn't expected)`),
	regexp.MustCompile(`(?i)\bnot an option\b`),
	regexp.MustCompile(`(?i)\bcould not find an option\b`),
	regexp.MustCompile(`(?i)\bpassed main parameter\b`),
	regexp.MustCompile(`(?i)\b(incorrect|wrong|invalid) usage\b`),
}

// otherServers matches what a server says of a command that was sent to it: not of the
// program's own command line.
var otherServers = regexp.MustCompile(`\bERR unknown\b`)

// complains reports whether the line is a complaint about the command line.
func complains(line string) bool {
	is := func(r *regexp.Regexp) bool { return r.MatchString(line) }
	return slices.ContainsFunc(complaints, is) && !otherServers.MatchString(line)
}

// namesAnother reports whether the line has a long flag in it, but for one that asks for
// help.
func namesAnother(line string) bool {
	for _, m := range longFlag.FindAllStringSubmatch(line, -1) {
		if m[2] != "help" {
			return true
		}
	}
	return false
}

var longFlag = regexp.MustCompile("(^|[\\s'\"`:(=])--?([A-Za-z][0-9A-Za-z._-]+)")

// usage matches the beginning of a help text, or the advice to read it.
var usage = regexp.MustCompile(`(?i)^\s*(usage\b( of\b|:|$)|(try|run|use|see) .*(--help|-help|-h)\b)|, try --help`)

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
