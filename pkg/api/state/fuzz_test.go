package state

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

// FuzzStates: for any conditions, the parsed state is short, its cost is bounded by a multiple of the input's size, and
// it contains only valid names.
func FuzzStates(f *testing.F) {
	leaf := strings.Repeat("0a", 32)
	f.Add("x (leaf sha256:"+leaf+" since 2026-05-01T12:00:00Z)", `{"v":1,"state":{"leaf":"`+leaf+`","since":"2026-05-01T12:00:00Z"}}`, "Serving", "Unknown")
	f.Add("", `{"v":1,"state":[{"attempt":"0a0a0a0a0a0a0a0a","verdict":"withheld","workload":"Deployment/web","container":"app"}]}`, "", "True")
	f.Add("", `{"v":1,"state":{"secret":"a","kept":[`+strings.Repeat(`"b",`, 8000)+`"c"],"names":["d"]}}`, "", "True")
	f.Add(strings.Repeat(", ", 1<<19), strings.Repeat(`[`, 1<<15), api.ReasonPodKeys, "True")
	f.Fuzz(func(t *testing.T, message, text, reason, status string) {
		svc := &corev1.Service{}
		for _, conditionType := range []string{api.ConditionReady, api.ConditionServing, api.ConditionPodsHealthy} {
			svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: message})
			if text != "" {
				svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: conditionType + api.StateSuffix, Message: text})
			}
		}
		var ready Ready
		read := func() {
			ready = ReadyOf(svc)
			ServingOf(svc)
			PartIn(svc)
		}
		size := len(message) + len(text)
		if allocated, most := bounded.Allocated(read), uint64(512<<10+128*size)*bounded.RaceFactor; allocated > most {
			t.Fatalf("%d bytes became %d", size, allocated)
		}
		if err := bounded.Took(100*time.Millisecond+time.Duration(size)*10*time.Microsecond, read); err != nil {
			t.Fatalf("%d bytes: %s", size, err)
		}
		if ready.Leaf != "" && !api.IsFingerprint(ready.Leaf) || len(ready.Proof) > maxProof || len(ready.Kept) > api.MaxKept || len(ready.Names) > maxShown || len(ready.Chain) > maxShown {
			t.Fatalf("%v", ready)
		}
		for _, name := range append(ready.Kept, ready.Secret) {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
				t.Fatalf("%+v", ready)
			}
		}
		again := ReadyOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: Say(metav1.Condition{Type: api.ConditionReady}, ready).Both()}})
		if said := Say(metav1.Condition{Type: api.ConditionReady}, again); !Same(said, Say(metav1.Condition{Type: api.ConditionReady}, ready)) {
			t.Fatalf("%v was read back as %v", ready, again)
		}
	})
}
