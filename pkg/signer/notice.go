package signer

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
)

// A Service of a namespace without the label gets no condition, so that an event has to say that
// nothing is done for it: most who see it forgot the label.

// NoticeDelay is how long a namespace has to get its label after a Service asks, before an event
// says that it does not have it. Whoever makes both at once does not make a mistake.
const NoticeDelay = 10 * time.Second

// AsksAnew reports whether a change of a Service is that it asks for a certificate, or for another.
// before is nil for a new Service, after for one that is gone.
func AsksAnew(before, after *corev1.Service) bool {
	if after == nil || !api.Asks(after) {
		return false
	}
	return before == nil || !api.Asks(before) ||
		before.Annotations[api.AnnotationSecretName] != after.Annotations[api.AnnotationSecretName] ||
		api.WantsPodKeys(before) != api.WantsPodKeys(after)
}

// NotOptedInNotice returns the event on a Service that asks for a certificate in a namespace without the
// label. It is nil if the namespace has the label or does not need it, and if there is a condition,
// which then says so.
func NotOptedInNotice(svc *corev1.Service, optedIn bool) *Event {
	s := Situation{OptedIn: optedIn}
	s.Key.Namespace = svc.Namespace
	if !api.Asks(svc) || s.optedIn(svc) || api.Condition(svc, api.ConditionReady) != nil {
		return nil
	}
	return &Event{svc, corev1.EventTypeWarning, string(reasonNotOptedIn), fmt.Sprintf("%s: the Service gets no certificate; to opt in: kubectl label namespace %s %s=%s",
		s.labelText("does not have"), svc.Namespace, api.LabelInject, api.InjectEnabled)}
}

// Limits of such events: anybody who may write Services of a namespace can cause them.
var (
	noticesOfNamespace = limit.Limit{Burst: 10, Interval: time.Minute}
	noticesOfAll       = limit.Limit{Burst: 100, Interval: time.Second}
)

// Notices bounds how many such events there are. It is safe for concurrent use.
type Notices struct {
	mu         sync.Mutex
	all        time.Time // when all of noticesOfAll is there again
	namespaces *limit.Keyed[string]
}

// NewNotices returns Notices of which nothing was used.
func NewNotices() *Notices {
	return &Notices{namespaces: limit.NewKeyed[string](noticesOfNamespace)}
}

// Take reports whether there may be an event in the namespace now, and counts it.
func (n *Notices) Take(namespace string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, all := noticesOfAll.Take(n.all, now, 1)
	if limit.Latest(at, n.namespaces.At(namespace, now, 1)).After(now) {
		return false
	}
	n.all = all
	n.namespaces.Sweep(now)
	n.namespaces.Take(namespace, now, 1)
	return true
}
