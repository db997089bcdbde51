// Package starttls performs the exchange before the TLS handshake in protocols that do not start
// with TLS, such as the SSLRequest of PostgreSQL or STARTTLS of SMTP.
//
//	err := starttls.Postgres.Begin(conn, "db.shop.svc", now.Add(2*time.Second), now.Add(5*time.Second))
//	// if err is nil, a TLS handshake may begin on conn
//
// Each [Protocol] has its own file. Servers are not trusted: at most 16 KiB are read from a
// connection, until the given time. An [Error] names the step with an unexpected answer, or reports
// that the server offers no TLS.
package starttls
