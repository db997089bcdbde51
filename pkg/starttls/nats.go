package starttls

import (
	"encoding/json"
	"strings"
)

// beginNATS reads the INFO line, after which TLS begins. See
// https://docs.nats.io/reference/reference-protocols/nats-protocol
func beginNATS(c *conversation, _ string) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	text, found := strings.CutPrefix(line, "INFO ")
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	switch {
	case !found || json.Unmarshal([]byte(text), &info) != nil:
		return c.unexpected(line)
	case !info.Required && !info.Available:
		return c.declined(line)
	}
	return nil
}
