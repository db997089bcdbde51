package starttls

import (
	"bytes"
	"encoding/xml"
	"strings"
)

// Namespaces of RFC 6120.
const (
	xmppTLS    = "urn:ietf:params:xml:ns:xmpp-tls"
	xmppStream = "http://etherx.jabber.org/streams"
)

// beginXMPP opens a stream to the host and sends starttls. See RFC 6120, section 5.4. The server's
// XML is searched for strings: an XML parser for untrusted input is not worth it.
func beginXMPP(namespace string) func(*conversation, string) error {
	return func(c *conversation, host string) error {
		var to bytes.Buffer
		if err := xml.EscapeText(&to, []byte(host)); err != nil {
			return err
		}
		open := "<?xml version='1.0'?><stream:stream xmlns='" + namespace + "' xmlns:stream='" + xmppStream + "' to='" + to.String() + "' version='1.0'>"
		if err := c.send("the stream to "+host, open); err != nil {
			return err
		}
		if first, err := c.first(); err != nil {
			return err
		} else if first != '<' {
			return c.unexpected(c.since(first))
		}
		features, err := c.until("</stream:features>", "<stream:features/>", "</stream:error>", "</stream:stream>")
		if err != nil {
			return err
		}
		begin := strings.LastIndex(features, "<stream:")
		switch {
		case begin < 0 || !strings.Contains(features, "stream:features"): // usually host-unknown
			return c.unexpected(features[max(0, begin):])
		case !strings.Contains(features, xmppTLS):
			return c.declined(features[begin:])
		}
		if err := c.send("starttls", "<starttls xmlns='"+xmppTLS+"'/>"); err != nil {
			return err
		}
		answer, err := c.until("/>", "</proceed>", "</failure>", "</stream:stream>")
		answer = strings.TrimSpace(answer)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(answer, "<proceed"):
			return nil
		case strings.HasPrefix(answer, "<failure"):
			return c.declined(answer)
		}
		return c.unexpected(answer)
	}
}
