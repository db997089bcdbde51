package starttls

// beginPostgres sends SSLRequest, which PostgreSQL answers with one byte.
// See https://www.postgresql.org/docs/current/protocol-message-formats.html
func beginPostgres(c *conversation, _ string) error {
	if err := c.send("SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f"); err != nil {
		return err
	}
	answer, err := c.first()
	switch {
	case err != nil:
		return err
	case answer == 'N':
		return c.declined("N")
	case answer != 'S':
		return c.unexpected(c.since(answer))
	}
	return nil
}
