package plan

import (
	"strconv"
	"strings"
)

// address is a host in a text, as a client would dial it.
type address struct {
	scheme string // in lower case; empty if there is none
	host   string // in lower case, without a dot at the end
	port   int32  // 0 if there is none
	text   string // scheme, host and port in their original form
}

// Limits.
const (
	maxHost     = 253     // of a DNS name
	maxUserInfo = 256     // of user and password before a host
	maxText     = 1 << 20 // of one value: no Kubernetes object is larger
	maxAddress  = 120     // of an address that is shown
)

// eachAddress calls found with each address in the text: every host with a scheme, with a port
// or with a dot. The time is linear in the length of the text.
func eachAddress(text string, found func(address)) {
	text = text[:min(len(text), maxText)]
	for at := 0; at < len(text); {
		if !isHostByte(text[at]) {
			at++
			continue
		}
		begin := at
		for at < len(text) && isHostByte(text[at]) {
			at++
		}
		if a, ok := addressAt(text, begin, at); ok {
			found(a)
		}
	}
}

func isHostByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '.' || b == '-' || b >= 'A' && b <= 'Z'
}

// addressAt reads the address whose host is text[begin:end]. It returns false for a word that is
// not recognized as a host.
func addressAt(text string, begin, end int) (address, bool) {
	if end-begin > maxHost+1 || strings.HasPrefix(text[end:], "://") || strings.HasPrefix(text[end:], "_") { // a scheme, or a name
		return address{}, false
	}
	a := address{host: strings.ToLower(strings.TrimSuffix(text[begin:end], "."))}
	scheme := schemeBefore(text, begin)
	a.scheme = strings.ToLower(scheme)
	written := text[begin:end]
	if digits, rest, ok := portAt(text[end:]); ok {
		a.port = rest
		written += ":" + digits
	}
	if a.scheme == "" && (a.port == 0 && !strings.Contains(a.host, ".") || begin > 0 && !mayPrecede(text[begin-1])) {
		return address{}, false
	}
	if scheme != "" {
		written = scheme + "://" + written
	}
	a.text = written
	return a, a.host != ""
}

// mayPrecede reports whether a host without a scheme can begin after the byte. After a slash it
// is part of a path or of an image, after an underscore of a name.
func mayPrecede(b byte) bool { return !strings.ContainsRune("/_$%\\", rune(b)) }

// schemeBefore returns the scheme before a host, as http of "http://user:password@host", or "".
func schemeBefore(text string, at int) string {
	head := text[max(0, at-maxUserInfo):at]
	if strings.HasSuffix(head, "@") {
		from := strings.LastIndex(head, "://")
		if from < 0 || strings.ContainsAny(head[from+3:], "/ \t\r\n\"'") {
			return ""
		}
		head = head[:from+3]
	}
	head, ok := strings.CutSuffix(head, "://")
	if !ok {
		return ""
	}
	from := len(head)
	for from > 0 && isHostByte(head[from-1]) && head[from-1] != '.' && head[from-1] != '-' {
		from--
	}
	return head[from:]
}

// portAt reads a port at the beginning of a text, as 8080 of ":8080/healthz". A number that a
// letter or another number follows, as in an image tag, is not a port.
func portAt(text string) (digits string, port int32, ok bool) {
	text, ok = strings.CutPrefix(text, ":")
	if !ok {
		return "", 0, false
	}
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	if end < len(text) && (isHostByte(text[end]) && !endsSentence(text[end:]) || text[end] == '_') {
		return "", 0, false
	}
	n, err := strconv.ParseUint(text[:end], 10, 16)
	if err != nil || n == 0 {
		return "", 0, false
	}
	return text[:end], int32(n), true
}

// endsSentence reports whether a text begins with a dot that no character of a host follows.
func endsSentence(text string) bool {
	return text[0] == '.' && (len(text) == 1 || !isHostByte(text[1]))
}

// protocol is the default port and the protocol of a scheme.
type protocol struct {
	port   int32
	speaks Speaks
}

// protocols are the known schemes of URLs.
var protocols = map[string]protocol{
	"http": {80, SpeaksPlaintext}, "https": {443, SpeaksTLS}, "ws": {80, SpeaksPlaintext}, "wss": {443, SpeaksTLS},
	"grpcs": {443, SpeaksTLS}, "h2c": {80, SpeaksPlaintext},
	"redis": {6379, SpeaksPlaintext}, "rediss": {6379, SpeaksTLS},
	"amqp": {5672, SpeaksPlaintext}, "amqps": {5671, SpeaksTLS},
	"mqtt": {1883, SpeaksPlaintext}, "mqtts": {8883, SpeaksTLS},
	"ldap": {389, SpeaksUnknown}, "ldaps": {636, SpeaksTLS},
	"postgres": {5432, SpeaksUnknown}, "postgresql": {5432, SpeaksUnknown}, "mysql": {3306, SpeaksUnknown},
	"mongodb": {27017, SpeaksUnknown}, "nats": {4222, SpeaksUnknown}, "tls": {0, SpeaksTLS}, "ssl": {0, SpeaksTLS},
}

func protocolOf(scheme string) protocol {
	if p, ok := protocols[scheme]; ok {
		return p
	}
	return protocol{speaks: SpeaksUnknown}
}
