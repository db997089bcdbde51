package serving

import (
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// remember notes what is known of the pod, and how long the certificate took that it is
// seen to serve for the first time.
func (v *view) remember(c consumer) {
	if v.isPodKeys() {
		v.refreshed(&c)
	} else {
		v.arrived(&c)
	}
	v.d.Memory.pods[c.pod.UID] = &remembered{seen: c.seen, reached: c.reached, refreshAt: c.refreshAt, woken: c.woken}
}

// arrived notes when the Secret's certificate became valid. A pod that is seen to serve it
// for the first time says how long it took, if it was seen to serve an earlier one before.
func (v *view) arrived(c *consumer) {
	for _, a := range c.answers {
		if a.Kind != probe.TLS || a.Leaf != v.cert.leaf {
			continue
		}
		v.d.Memory.certificate.notBefore = a.NotBefore
		if c.reached != "" && c.reached != v.cert.leaf {
			v.d.Arrivals = append(v.d.Arrivals, max(0, a.At.Sub(v.cert.since)))
		}
		c.reached = v.cert.leaf
		break
	}
}

// refreshed notes the latest certificate of the pod's own key that it serves. One that took
// the place of another says how late that was: what is measured is when it was issued, and
// not when it was seen, as such a pod is dialled rarely. One that was issued before the
// other was due says nothing: a kubelet that was restarted asks at once.
func (v *view) refreshed(c *consumer) {
	latest := c.latestOwn()
	if latest == nil || latest.Leaf == c.reached {
		return
	}
	issued := latest.NotBefore.Add(pki.PodBackdate)
	if c.reached != "" && !issued.Before(c.refreshAt) {
		v.d.RefreshDelays = append(v.d.RefreshDelays, issued.Sub(c.refreshAt))
	}
	c.reached, c.refreshAt = latest.Leaf, latest.PodKey.RefreshAt
}

// latestOwn returns the answer with the youngest certificate of the pod's own key, nil if
// there is none.
func (c consumer) latestOwn() *probe.Answer {
	if !hasPodKey(c.pod) {
		return nil
	}
	var latest *probe.Answer
	for i := range c.answers {
		a := &c.answers[i]
		if a.Kind == probe.TLS && a.Ours && a.PodKey != nil && (latest == nil || a.NotBefore.After(latest.NotBefore)) {
			latest = a
		}
	}
	return latest
}
