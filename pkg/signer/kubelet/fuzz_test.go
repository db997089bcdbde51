package kubelet

import (
	"slices"
	"strings"
	"testing"

	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/bounded"
)

// FuzzRequest: no request is approved for a name or address that the Node does not report or the
// operator does not allow. The cost of a decision is a multiple of the request's size.
func FuzzRequest(f *testing.F) {
	data := asks(f, newKey(f))
	f.Add("system:node:worker-1", data, "Hostname=worker-1,InternalIP=10.0.0.1,InternalIP=fd00::1,InternalDNS=worker-1.nodes.example.com", "worker-2")
	f.Add("system:node:worker-1", data, "InternalIP=10.0.0.1", "")
	f.Add("jane", []byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"), "", "")
	allowed := right(f).Allowed
	f.Fuzz(func(t *testing.T, username string, data []byte, reported, other string) {
		if len(data)+len(username)+len(reported) > 1<<20 {
			return
		}
		for _, request := range [][]byte{data, issue.EncodeCSR(data)} { // the PEM block alone is what most changes would break
			o := objectOf(request)
			o.Spec.Username = username
			var d Decision
			var s Situation
			allocated := bounded.Allocated(func() {
				s = Situation{Now: now, Request: RequestOf(o), Allowed: allowed, Others: map[string][]string{}}
				node, _ := s.Request.NodeName()
				s.Node = nodeOf(node, strings.Split(reported, ",")...)
				if other != "" {
					s.Others[other] = []string{"another"}
				}
				d = Decide(s)
			})
			if most := uint64(1<<20+64*(len(request)+len(username)+len(reported))) * bounded.RaceFactor; allocated > most {
				t.Fatalf("%d bytes became %d", len(request)+len(username)+len(reported), allocated)
			}
			if len(d.Message) > 4000 {
				t.Fatalf("%.300s", d.Message)
			}
			if d.Verdict == Approve {
				approvedRightly(t, s)
			}
		}
	})
}

func approvedRightly(t *testing.T, s Situation) {
	t.Helper()
	node, ok := s.Request.NodeName()
	asked := s.Request.Asked()
	if !ok || len(asked.Claims()) == 0 {
		t.Fatalf("approved for %q: %v", s.Request.Username, asked)
	}
	for _, claim := range asked.Claims() {
		if !slices.Contains(s.Node.Reports(), claim) || claim != node && len(s.Others[claim]) > 0 {
			t.Fatalf("%q was approved", claim)
		}
	}
	for _, name := range asked.Names {
		if name != node && !strings.HasSuffix(name, ".nodes.example.com") {
			t.Fatalf("%q was approved", name)
		}
	}
	for _, ip := range asked.IPs {
		if !s.Allowed.CIDRs[0].Contains(ip) && !s.Allowed.CIDRs[1].Contains(ip) {
			t.Fatalf("%s was approved", ip)
		}
	}
}
