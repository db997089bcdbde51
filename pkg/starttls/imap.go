package starttls

import "strings"

// beginIMAP sends STARTTLS. See RFC 3501, section 6.2.1.
func beginIMAP(c *conversation, _ string) error {
	const tag = "a1 "
	greeting, err := c.line()
	if err != nil {
		return err
	}
	switch upper := strings.ToUpper(greeting); {
	case strings.HasPrefix(upper, "* PREAUTH"): // STARTTLS is not allowed any more
		return c.declined(greeting)
	case !strings.HasPrefix(upper, "* OK"):
		return c.unexpected(greeting)
	}
	if err := c.send("STARTTLS", tag+"STARTTLS\r\n"); err != nil {
		return err
	}
	for range maxLines {
		line, err := c.line()
		if err != nil {
			return err
		}
		switch upper := strings.ToUpper(line); {
		case strings.HasPrefix(line, "* "): // untagged responses are ignored
		case strings.HasPrefix(upper, "A1 OK"):
			return nil
		case strings.HasPrefix(upper, "A1 NO"), strings.HasPrefix(upper, "A1 BAD"):
			return c.declined(line)
		default:
			return c.unexpected(line)
		}
	}
	return c.unexpected(greeting)
}
