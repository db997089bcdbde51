package api

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The message of a condition is a sentence for people and, at fixed places in it,
// facts for other processes: the Secret at the beginning, the rest in the last pair
// of parentheses. Facts are read at these places and nowhere else, so that what a
// user writes into an annotation, and an error quotes, is never taken for a fact.

// Reasons of condition ConditionReady that more than one process names.
const (
	// ReasonRetained: True; the Secret is not asked for any more, and is kept.
	ReasonRetained = "Retained"
	// ReasonWaitingForTrust: False; the certificate lacks names that not every
	// client would accept yet.
	ReasonWaitingForTrust = "WaitingForTrust"
	// ReasonNotOptedIn: False; the namespace lacks label LabelInject, and nothing shows that the
	// Service had a certificate while it had it. Of requests for certificates too.
	ReasonNotOptedIn = "NamespaceNotOptedIn"
)

// ReadyFacts is what condition ConditionReady, which the signer writes, tells other
// processes.
type ReadyFacts struct {
	Secret  string // the Secret that holds the certificate
	Request string // hash of what was asked for (Wanted.Hash); "" if nothing is asked for
	Leaf    string // fingerprint of the leaf in the Secret; "" if it holds none
}

// Message returns the message of a condition that says text and holds the facts:
//
//	Secret "NAME": TEXT (request HASH, leaf sha256:FINGERPRINT)
func (f ReadyFacts) Message(text string) string {
	var facts []string
	if f.Request != "" {
		facts = append(facts, requestFact+f.Request)
	}
	if f.Leaf != "" {
		facts = append(facts, leafFact+f.Leaf)
	}
	return secretFact + f.Secret + secretEnd + text + inParentheses(facts)
}

// ReadyOf returns the facts of the Service's condition ConditionReady. It returns
// false if there is no such condition, or one with which nothing was issued.
func ReadyOf(svc *corev1.Service) (ReadyFacts, bool) {
	c := Condition(svc, ConditionReady)
	if c == nil || c.Status != metav1.ConditionTrue && c.Reason != ReasonWaitingForTrust {
		return ReadyFacts{}, false
	}
	return parseReady(c.Message)
}

// KeptText returns the part of a condition's text that names the Secrets which a
// Service asked for before and still has, the first MaxKept in order; "" if there are
// none.
func KeptText(secrets []string) string {
	if len(secrets) == 0 {
		return ""
	}
	secrets = slices.Sorted(slices.Values(secrets))
	if n := len(secrets) - MaxKept; n > 0 {
		return fmt.Sprintf("%s%q and %d more", keptFact, secrets[:MaxKept], n)
	}
	return fmt.Sprintf("%s%q", keptFact, secrets)
}

// KeptPairText returns the end of the message about an annotation that is not
// allowed: it names the Secret whose certificate the Service still has.
func KeptPairText(secret, rest string) string {
	return fmt.Sprintf("%s%q %s", keptPairFact, secret, rest)
}

// NamesSecret reports whether the Service's condition ConditionReady names the Secret
// as one that holds a certificate of the Service: the one that it asks for, or one
// that is kept from before. Only the signer should write that condition, and only on a
// Service that was opted in at the time; others may have the right to.
func NamesSecret(svc *corev1.Service, secret string) bool {
	c := Condition(svc, ConditionReady)
	if c == nil {
		return false
	}
	f, _ := parseReady(c.Message)
	pair, found := afterLast(c.Message, keptPairFact)
	return f.Secret == secret || found && strings.HasPrefix(pair, strconv.Quote(secret)+" ") || slices.Contains(KeptSecrets(svc), secret)
}

// KeptSecrets returns the Secrets that the Service's condition ConditionReady names as kept
// from before (KeptText), at most MaxKept.
func KeptSecrets(svc *corev1.Service) []string {
	c := Condition(svc, ConditionReady)
	if c == nil || len(c.Message) > MaxMessage {
		return nil
	}
	rest, _ := afterLast(c.Message, keptFact)
	// An error may stand before it, and quote a value in which the same words stand. There
	// every quotation mark has a backslash before it.
	list := keptList.FindString(rest)
	if list == "" {
		return nil
	}
	names := strings.Split(list[2:len(list)-2], `" "`)
	return names[:min(len(names), MaxKept)]
}

// keptList matches the names of Secrets as KeptText lists them.
var keptList = regexp.MustCompile(`^\["[a-z0-9.-]+"( "[a-z0-9.-]+")*\]`)

// PodKeysText returns the beginning of the message of a condition ConditionReady with reason
// ReasonPodKeys. names are some of those in the certificate of each pod, and more is how
// many others there are.
func PodKeysText(names []string, more int) string {
	text := podKeysFact + strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf("%s%d more", moreNames, more)
	}
	return text
}

// PodKeyNames returns the names that the Service's condition ConditionReady says are in the
// certificates of its pods, as many as it shows; nil if it does not have reason
// ReasonPodKeys. What it says of names below a headless Service is a wildcard, and each pod
// has its own name there (MergeForPod).
func PodKeyNames(svc *corev1.Service) []string {
	if !HasPodKeys(svc) {
		return nil
	}
	text, ok := strings.CutPrefix(Condition(svc, ConditionReady).Message, podKeysFact)
	if !ok {
		return nil
	}
	text, _, _ = strings.Cut(text, ";")
	text, _, _ = strings.Cut(text, moreNames)
	return strings.Split(text, ", ")
}

// OptInText returns the end of a message that holds a proof that the Service was opted in, as
// the signer makes it; "" if there is none.
func OptInText(proof string) string {
	if proof == "" {
		return ""
	}
	return "; the opt-in is recorded" + inParentheses([]string{proofFact + proof})
}

// OptInProof returns the proof that the Service's condition ConditionReady holds, "" for none.
// Whether it is one, only the signer can tell.
func OptInProof(svc *corev1.Service) string {
	c := Condition(svc, ConditionReady)
	if c == nil {
		return ""
	}
	facts := lastParentheses(c.Message)
	if len(facts) != 1 {
		return ""
	}
	proof, ok := strings.CutPrefix(facts[0], proofFact)
	if !ok || !proofForm.MatchString(proof) {
		return ""
	}
	return proof
}

// proofForm is base64url of a signature; one by a key of RSA4096 has 683 characters.
var proofForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,1000}$`)

// afterLast returns what follows the last separator in s.
func afterLast(s, separator string) (after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", false
	}
	return s[i+len(separator):], true
}

func parseReady(message string) (ReadyFacts, bool) {
	rest, ok := strings.CutPrefix(message, secretFact)
	if !ok {
		return ReadyFacts{}, false
	}
	secret, rest, ok := strings.Cut(rest, secretEnd)
	if !ok || secret == "" || strings.Contains(secret, `"`) {
		return ReadyFacts{}, false
	}
	f := ReadyFacts{Secret: secret}
	for _, fact := range lastParentheses(rest) {
		if request, ok := strings.CutPrefix(fact, requestFact); ok {
			f.Request = request
		}
		if leaf, ok := strings.CutPrefix(fact, leafFact); ok && isFingerprint(leaf) {
			f.Leaf = leaf
		}
	}
	return f, true
}

// LeafOf returns the fingerprint (SHA-256 of the DER, in hex) of the leaf that the
// Service's condition ConditionReady names, or false if it names none.
func LeafOf(svc *corev1.Service) (fingerprint string, ok bool) {
	f, _ := ReadyOf(svc)
	return f.Leaf, f.Leaf != ""
}

// ServingFacts is what condition ConditionServing, which the rotator writes, tells
// other processes. Which workloads serve another leaf is in [ServingStatus].
type ServingFacts struct {
	Leaf  string    // fingerprint of the leaf that the pods should serve
	Since time.Time // when it became that, in whole seconds
}

// Message returns the message of a condition that says text and holds the facts:
//
//	TEXT (leaf sha256:FINGERPRINT since TIME)
func (f ServingFacts) Message(text string) string {
	return text + inParentheses([]string{leafFact + f.Leaf + sinceFact + f.Since.UTC().Format(time.RFC3339)})
}

// ServingOf returns the facts of the Service's condition ConditionServing, or false
// if there is no such condition or it holds none.
func ServingOf(svc *corev1.Service) (ServingFacts, bool) {
	c := Condition(svc, ConditionServing)
	if c == nil {
		return ServingFacts{}, false
	}
	facts := lastParentheses(c.Message)
	if len(facts) != 1 {
		return ServingFacts{}, false
	}
	fact, ok := strings.CutPrefix(facts[0], leafFact)
	leaf, at, ok2 := strings.Cut(fact, sinceFact)
	since, err := time.Parse(time.RFC3339, at)
	if !ok || !ok2 || err != nil || !isFingerprint(leaf) {
		return ServingFacts{}, false
	}
	return ServingFacts{Leaf: leaf, Since: since}, true
}

// PartIn returns the Secret that holds the Service's certificate: the one that it
// asks for, or the one that is retained for it.
func PartIn(svc *corev1.Service) (secretName string, ok bool) {
	if secretName, ok = Wants(svc); ok || svc.DeletionTimestamp != nil {
		return secretName, ok
	}
	if c := Condition(svc, ConditionReady); c == nil || c.Reason != ReasonRetained {
		return "", false
	}
	f, ok := ReadyOf(svc)
	return f.Secret, ok
}

// The forms of facts in messages.
const (
	secretFact  = `Secret "`
	secretEnd   = `": `
	requestFact = "request "
	leafFact    = "leaf sha256:"
	sinceFact   = " since "
	proofFact   = "proof "

	podKeysFact  = "each pod makes its key, and gets a certificate for "
	moreNames    = " and "
	keptFact     = "; kept from before, and renewed until deleted: "
	keptPairFact = "; the certificate in Secret "
)

func inParentheses(facts []string) string {
	if len(facts) == 0 {
		return ""
	}
	return " (" + strings.Join(facts, ", ") + ")"
}

// lastParentheses returns the facts in the parentheses with which the message ends,
// nil if it ends otherwise or is longer than MaxMessage.
func lastParentheses(message string) []string {
	if len(message) > MaxMessage {
		return nil
	}
	inside, ok := strings.CutSuffix(message, ")")
	open := strings.LastIndexByte(inside, '(')
	if !ok || open < 0 {
		return nil
	}
	return strings.Split(inside[open+1:], ", ")
}

var fingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)

// isFingerprint reports whether s has the form of pki.Fingerprint.
func isFingerprint(s string) bool { return fingerprint.MatchString(s) }
