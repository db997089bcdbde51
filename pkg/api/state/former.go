package state

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Conditions of earlier versions held their facts in their messages: the Secret at the beginning,
// the kept Secrets after fixed words, and the rest in the parentheses at the end. Facts are read at
// these places and nowhere else, so that what a user writes into an annotation, and an error
// quotes, is never taken for a fact.

// The forms of facts in those messages.
const (
	secretFact  = `Secret "`
	secretEnd   = `": `
	requestFact = "request "
	leafFact    = "leaf sha256:"
	sinceFact   = " since "
	proofFact   = "proof "
	onTrialFact = " on trial"

	podKeysFact  = "each pod makes its key, and gets a certificate for "
	moreNames    = " and "
	keptFact     = "; kept from before, and renewed until deleted: "
	keptPairFact = "; the certificate in Secret "
)

// formerReady reads:
//
//	Secret "NAME": TEXT; kept from before, and renewed until deleted: ["NAME" …] (request HASH, leaf sha256:FINGERPRINT)
//	ERROR; the certificate in Secret "NAME" TEXT
//	each pod makes its key, and gets a certificate for NAME, … and N more; TEXT (proof PROOF)
func formerReady(svc *corev1.Service) Ready {
	c := api.Condition(svc, api.ConditionReady)
	if c == nil || len(c.Message) > api.MaxMessage {
		return Ready{}
	}
	r := Ready{Kept: formerKept(c.Message)}
	if rest, ok := strings.CutPrefix(c.Message, secretFact); ok {
		if name, _, ok := strings.Cut(rest, secretEnd); ok && !strings.Contains(name, `"`) {
			r.Secret = name
		}
	} else if i := strings.LastIndex(c.Message, keptPairFact); i >= 0 {
		quoted, _ := strconv.QuotedPrefix(c.Message[i+len(keptPairFact):])
		r.Secret, _ = strconv.Unquote(quoted)
	}
	issued := r.Secret != "" && (c.Status == metav1.ConditionTrue || c.Reason == api.ReasonWaitingForTrust)
	for _, fact := range lastParentheses(c.Message) {
		if request, ok := strings.CutPrefix(fact, requestFact); ok && issued {
			r.Request = request
		}
		if leaf, ok := strings.CutPrefix(fact, leafFact); ok && issued {
			r.Leaf = leaf
		}
		if proof, ok := strings.CutPrefix(fact, proofFact); ok {
			r.Proof = proof
		}
	}
	if text, ok := strings.CutPrefix(c.Message, podKeysFact); ok && c.Reason == api.ReasonPodKeys {
		text, _, _ = strings.Cut(text, ";")
		text, _, _ = strings.Cut(text, moreNames)
		r.Names = strings.Split(text, ", ")
	}
	return r
}

// formerKept reads the kept Secrets. An error may stand before them, and quote a value in which the
// same words stand. There every quotation mark has a backslash before it.
func formerKept(message string) []string {
	i := strings.LastIndex(message, keptFact)
	if i < 0 {
		return nil
	}
	list := keptList.FindString(message[i+len(keptFact):])
	if list == "" {
		return nil
	}
	return strings.Split(list[2:len(list)-2], `" "`)
}

var keptList = regexp.MustCompile(`^\["[a-z0-9.-]+"( "[a-z0-9.-]+")*\]`)

// formerServing reads:
//
//	TEXT (leaf sha256:FINGERPRINT since TIME)
func formerServing(svc *corev1.Service) Serving {
	facts := formerFacts(svc, api.ConditionServing)
	if len(facts) != 1 {
		return Serving{}
	}
	fact, ok := strings.CutPrefix(facts[0], leafFact)
	leaf, at, _ := strings.Cut(fact, sinceFact)
	since, err := time.Parse(time.RFC3339, at)
	if !ok || err != nil {
		return Serving{}
	}
	return Serving{Leaf: leaf, Since: since}
}

// formerFlags reads:
//
//	TEXT (withheld ATTEMPT KIND/NAME/CONTAINER since TIME on trial, …)
func formerFlags(svc *corev1.Service) Flags {
	var out Flags
	for _, fact := range formerFacts(svc, api.ConditionFlags) {
		fact, onTrial := strings.CutSuffix(fact, onTrialFact)
		rest, at, _ := strings.Cut(fact, sinceFact)
		since, err := time.Parse(time.RFC3339, at)
		fields := strings.Split(rest, " ")
		if err != nil || len(fields) != 3 {
			continue
		}
		if slash := strings.LastIndexByte(fields[2], '/'); slash >= 0 {
			out = append(out, Attempt{
				Verdict: Verdict(fields[0]), Attempt: fields[1], Workload: fields[2][:slash], Container: fields[2][slash+1:], Since: since, OnTrial: onTrial,
			})
		}
	}
	return out
}

// formerFacts returns the facts of the Service's condition of that type.
func formerFacts(svc *corev1.Service, conditionType string) []string {
	c := api.Condition(svc, conditionType)
	if c == nil || len(c.Message) > api.MaxMessage {
		return nil
	}
	return lastParentheses(c.Message)
}

// lastParentheses returns the facts in the parentheses with which the message ends, nil if it ends
// otherwise.
func lastParentheses(message string) []string {
	inside, ok := strings.CutSuffix(message, ")")
	open := strings.LastIndexByte(inside, '(')
	if !ok || open < 0 {
		return nil
	}
	return strings.Split(inside[open+1:], ", ")
}
