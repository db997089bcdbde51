package starttls

import (
	"bytes"
	"encoding/binary"
)

// Capabilities of MySQL.
const (
	mysqlProtocol41       = 1 << 9
	mysqlSSL              = 1 << 11
	mysqlSecureConnection = 1 << 15

	mysqlCapabilities = mysqlProtocol41 | mysqlSSL | mysqlSecureConnection
)

// mysqlUser is the user of the login without a password at the end. No such user should exist.
const mysqlUser = "servingcert-probe"

// beginMySQL reads the server's greeting and answers with a request for TLS. See
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func beginMySQL(c *conversation, _ string) error {
	header, err := c.take(4)
	if err != nil {
		return err
	}
	size := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if size > maxRead || header[3] != 0 {
		return c.unexpected(c.since(header...))
	}
	greeting, err := c.take(size)
	if err != nil {
		return err
	}
	// Version 10, the server version and a zero, 4 bytes of connection id, 8 bytes of challenge,
	// a zero, and the lower two bytes of the capabilities.
	end := bytes.IndexByte(greeting, 0)
	if size == 0 || greeting[0] != 10 || end < 0 || len(greeting) < end+16 {
		return c.unexpected(string(greeting))
	}
	if binary.LittleEndian.Uint16(greeting[end+14:])&mysqlSSL == 0 {
		return c.declined(string(greeting[1:end]))
	}
	return c.send("SSLRequest", mysqlPacket(1, mysqlResponse()))
}

// endMySQL attempts a login and reads the answer, usually that access is denied. A server that resolves
// the names of its clients blocks an address after max_connect_errors connections, 100 by default,
// without a login: the rotator's after some days, with all other clients at that address. See
// https://dev.mysql.com/doc/refman/8.4/en/host-cache.html
func endMySQL(c *conversation) {
	if c.send("login", mysqlPacket(2, mysqlResponse()+mysqlUser+"\x00\x00")) != nil {
		return
	}
	header, err := c.take(4)
	if err != nil || header[1] > 1 || header[2] != 0 {
		return
	}
	answer, err := c.take(int(header[0]) | int(header[1])<<8)
	if err != nil || len(answer) == 0 || answer[0] != 0xfe {
		return
	}
	// The server requests another authentication method.
	if c.send("login", mysqlPacket(header[3]+1, "")) == nil {
		_, _ = c.take(5) // wait for the result
	}
}

// mysqlPacket returns a short packet with the sequence number.
func mysqlPacket(number byte, payload string) string {
	return string([]byte{byte(len(payload)), 0, 0, number}) + payload
}

// mysqlResponse returns the beginning of a handshake response. On its own, it is a request for TLS.
func mysqlResponse() string {
	response := make([]byte, 32)
	binary.LittleEndian.PutUint32(response, mysqlCapabilities)
	binary.LittleEndian.PutUint32(response[4:], 1<<24) // the longest packet
	response[8] = 45                                   // utf8mb4
	return string(response)
}
