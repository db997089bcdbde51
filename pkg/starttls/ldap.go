package starttls

import (
	"encoding/asn1"
	"fmt"
)

// startTLSRequest is an LDAPMessage with number 1: ExtendedRequest 1.3.6.1.4.1.1466.20037.
const startTLSRequest = "\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037"

// extendedResponse is the tag of the response, of class APPLICATION.
const extendedResponse = 24

// Result codes of a server that may have TLS. See RFC 4511, section 4.1.9.
const (
	busy        = 51
	unavailable = 52
)

// beginLDAP sends the extended operation StartTLS. See RFC 4511, sections 4.12 and 4.14.
func beginLDAP(c *conversation, _ string) error {
	if err := c.send("StartTLS", startTLSRequest); err != nil {
		return err
	}
	tag, err := c.first()
	if err != nil {
		return err
	}
	if tag != 0x30 { // a sequence
		return c.unexpected(c.since(tag))
	}
	size, err := c.length()
	if err != nil {
		return err
	}
	content, err := c.take(size)
	if err != nil {
		return err
	}
	var id int
	var operation asn1.RawValue
	rest, err := asn1.Unmarshal(content, &id)
	if err == nil {
		_, err = asn1.Unmarshal(rest, &operation)
	}
	if err != nil || id != 1 || operation.Class != asn1.ClassApplication || operation.Tag != extendedResponse {
		return c.unexpected(string(content))
	}
	var code asn1.Enumerated
	if _, err := asn1.Unmarshal(operation.Bytes, &code); err != nil {
		return c.unexpected(string(content))
	}
	if code == busy || code == unavailable { // the server is full, is shutting down, or cannot begin TLS
		return c.unexpected(fmt.Sprintf("result code %d", code))
	}
	if code != 0 {
		return c.declined(fmt.Sprintf("result code %d", code))
	}
	return nil
}

// length reads a length in BER, up to maxRead.
func (c *conversation) length() (int, error) {
	first, err := c.take(1)
	if err != nil {
		return 0, err
	}
	if first[0] < 0x80 {
		return int(first[0]), nil
	}
	n := int(first[0] & 0x7f)
	if n < 1 || n > 4 {
		return 0, c.unexpected(c.since(first...))
	}
	digits, err := c.take(n) // OpenLDAP writes four, with zeroes
	if err != nil {
		return 0, err
	}
	size := 0
	for _, digit := range digits {
		size = size<<8 | int(digit)
	}
	if size > maxRead {
		return 0, c.unexpected(c.since(digits...))
	}
	return size, nil
}
