// Package starttls speaks what comes before TLS in protocols that do not begin with it, such
// as the SSLRequest of PostgreSQL or STARTTLS of SMTP.
//
//	err := starttls.Postgres.Begin(conn, "db.shop.svc", now.Add(2*time.Second), now.Add(5*time.Second))
//	// if err is nil, a TLS handshake may begin on conn
//
// A [Protocol] has one file each. What a server answers is not trusted: of one connection at
// most 16 KiB are read, until the given time, and an [Error] says at which step an answer was not
// understood, or that the server has no TLS to offer.
package starttls
