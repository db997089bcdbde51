package correct

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// family is the pods of one template.
type family struct {
	workload pods.Workload
	revision string
}

// kin is what the pods of a template show about each other: gathered once, so that a pod is
// not compared with each of the others. A nil kin shows nothing.
type kin struct {
	// served are the attempts that were made with, or withheld from, a steady pod.
	served map[api.ContainerAttempt]bool
	// fails are how containers fail that were not given an attempt.
	fails map[failure]bool
	// said are the readings of the namespace.
	said *readings
}

type failure struct {
	container string
	exitCode  int32
}

func newKin(said *readings) *kin {
	return &kin{map[api.ContainerAttempt]bool{}, map[failure]bool{}, said}
}

// add takes in one of the pods. attempts are those of its template.
func (k *kin) add(pod *pods.Facts, attempts []api.ContainerAttempt, now time.Time) {
	made := map[string]bool{}
	for _, a := range attempts {
		made[a.Container] = made[a.Container] || !a.Withheld
		if steady(pod, now) {
			k.served[a] = true
		}
	}
	if pod.Crashes == nil {
		return
	}
	for _, c := range pod.Crashes.Containers {
		if fails(c, now) && !made[c.Container] {
			k.fails[failure{c.Container, c.ExitCode}] = true
		}
	}
}

// serves reports whether a pod serves with which the attempt was made, or from which it was
// withheld.
func (k *kin) serves(a api.ContainerAttempt, withheld bool) bool {
	a.Withheld = withheld
	return k != nil && k.served[a]
}

// failsWithout reports whether a pod that was not given the attempt fails in the same way.
func (k *kin) failsWithout(c pods.Crash) bool {
	return k != nil && k.fails[failure{c.Container, c.ExitCode}]
}

// read returns what the program said when it exited.
func (k *kin) read(c pods.Crash) Reading {
	if k == nil {
		return readingOf(c)
	}
	return k.said.of(c)
}

// Readings are what programs said when they exited, by a hash of their words, so that the
// same words are read once.
type Readings map[[sha256.Size]byte]Reading

// Reading is what a program said.
type Reading struct {
	evidence Evidence
	line     string // that is the evidence, as an event may repeat it
}

func readingOf(c pods.Crash) Reading {
	evidence, line := evidenceOf(c.Message, c.Given)
	return Reading{evidence, strings.Clone(quotable(line))}
}

// readings are those that were there before a decision, and those that it needs.
type readings struct{ before, now Readings }

func (r *readings) of(c pods.Crash) Reading {
	key := sha256.Sum256([]byte(strings.Join(c.Given, "\x00") + "\x01" + c.Message))
	reading, known := r.before[key]
	if !known {
		reading = readingOf(c)
	}
	if r.now == nil {
		r.now = Readings{}
	}
	r.now[key] = reading
	return reading
}
