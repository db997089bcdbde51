package api

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// An attempt is what a container is given to serve TLS, beside files and variables that no
// program minds, without an explicit request: flags that its program may
// not know. It is named by a hash, so that two processes can speak of it.

// AttemptOf returns the name of the attempt to give a program what given says. image is the
// image's name without tag and digest, executable what the command starts, empty for what
// the image starts, and words the subcommand or script after it. All other arguments do
// not matter: they do not change which flags a program knows, and each release of a chart
// may change one.
func AttemptOf(image, executable string, words, given []string) string {
	text := make([]byte, 0, 512) // an ordinary one is shorter
	for _, part := range [...][]string{{image, executable}, words, given} {
		for _, s := range part {
			text = append(append(text, s...), 0)
		}
		text = append(text, 1)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:attemptBytes])
}

const attemptBytes = 8

// IsAttempt reports whether s has the form of AttemptOf.
func IsAttempt(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == attemptBytes && strings.ToLower(s) == s
}

// Reasons of condition ConditionFlags.
const (
	// FlagsWithheld: False; at least one attempt is withheld.
	FlagsWithheld = "FlagsWithheld"
	// FlagsSuspected: False; none is withheld, and one would be if the rotator did not
	// only tell.
	FlagsSuspected = "FlagsSuspected"
	// FlagsKept: True; all attempts that were under suspicion are cleared.
	FlagsKept = "FlagsKept"
)
