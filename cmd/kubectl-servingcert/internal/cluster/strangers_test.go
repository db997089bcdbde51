package cluster

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestDialOfWhatMayBeAProxy: the dial offers the protocol of probes, and what is seen of a program stays the same.
func TestDialOfWhatMayBeAProxy(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	for name, tt := range map[string]struct {
		speaks  []string
		proxied bool
		offers  [][]string // of each dial
	}{
		"a program":                   {nil, false, [][]string{nil}},
		"a proxy":                     {[]string{proxy.ProbeProtocol}, true, [][]string{{proxy.ProbeProtocol}}},
		"it speaks no protocol":       {nil, true, [][]string{{proxy.ProbeProtocol}}},
		"it insists on another":       {[]string{"h2"}, true, [][]string{{proxy.ProbeProtocol}, nil}},
		"it insists, but is no proxy": {[]string{"h2"}, false, [][]string{nil}},
	} {
		t.Run(name, func(t *testing.T) {
			offers := make(chan []string, 3)
			cfg := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: tt.speaks, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				offers <- hello.SupportedProtos
				return nil, nil
			}}
			at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(cfg))
			got := Dial(t.Context(), dial.To(at.String()), tt.proxied, "web.shop.svc", starttls.TLS, process.Soon)
			assert.Equal(t, probe.TLS, got.Kind, got.Err)
			close(offers)
			var all [][]string
			for o := range offers {
				all = append(all, o)
			}
			assert.Equal(t, tt.offers, all)
		})
	}
}
