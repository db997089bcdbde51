package starttls

import "strings"

// beginSMTP sends EHLO and STARTTLS. See RFC 3207.
func beginSMTP(c *conversation, _ string) error {
	if lines, err := c.reply(); err != nil {
		return err
	} else if !strings.HasPrefix(lines[0], "220") {
		return c.unexpected(lines[0])
	}
	if err := c.send("EHLO", "EHLO servingcert.invalid\r\n"); err != nil {
		return err
	}
	lines, err := c.reply()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(lines[0], "250") {
		return c.unexpected(lines[0])
	}
	offered := false
	for _, line := range lines[1:] {
		offered = offered || strings.EqualFold(strings.TrimSpace(line[4:]), "STARTTLS")
	}
	if !offered {
		return c.declined(lines[len(lines)-1])
	}
	if err := c.send("STARTTLS", "STARTTLS\r\n"); err != nil {
		return err
	}
	if lines, err = c.reply(); err != nil {
		return err
	}
	switch {
	case lines[0][0] == '2':
		return nil
	case strings.HasPrefix(lines[0], "421"): // it is shutting down
	case lines[0][0] == '4', lines[0][0] == '5': // 454 TLS not available due to temporary reason
		return c.declined(lines[0])
	}
	return c.unexpected(lines[0])
}

// reply returns the lines of one reply. Each has a code and at least one more character.
func (c *conversation) reply() ([]string, error) {
	var lines []string
	for len(lines) < maxLines {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 3 {
			line += " " // required by RFC 5321
		}
		if len(line) < 4 || line[0] < '2' || line[0] > '5' || line[3] != ' ' && line[3] != '-' {
			return nil, c.unexpected(line)
		}
		if lines = append(lines, line); line[3] == ' ' {
			return lines, nil
		}
	}
	return nil, c.unexpected(lines[0])
}
