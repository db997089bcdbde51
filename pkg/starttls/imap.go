package starttls

import "strings"

// beginIMAP says STARTTLS. See RFC 3501, section 6.2.1.
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
		return c.misunderstood(greeting)
	}
	if err := c.say("STARTTLS", tag+"STARTTLS\r\n"); err != nil {
		return err
	}
	for range maxLines {
		line, err := c.line()
		if err != nil {
			return err
		}
		switch upper := strings.ToUpper(line); {
		case strings.HasPrefix(line, "* "): // whatever it says besides
		case strings.HasPrefix(upper, "A1 OK"):
			return nil
		case strings.HasPrefix(upper, "A1 NO"), strings.HasPrefix(upper, "A1 BAD"):
			return c.declined(line)
		default:
			return c.misunderstood(line)
		}
	}
	return c.misunderstood(greeting)
}
