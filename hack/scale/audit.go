package main

import (
	"net/url"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// counted is how many requests of each kind a user made.
type counted struct {
	streamed int // watches that begin with a list
	lists    int // each page is one
	watches  int // that go on after a list
	gets     int
	writes   int
	events   int // of the audit log, up to here
}

// requestsOf counts a user's requests after the first events of the log.
func (r *run) requestsOf(user string, after int) (counted, error) {
	events, err := r.Plane.AuditEvents()
	if err != nil {
		return counted{}, err
	}
	return count(events, user, after), nil
}

func count(events []controlplane.AuditEvent, user string, after int) counted {
	c := counted{events: len(events)}
	for _, e := range events[after:] {
		if e.User.Username != user {
			continue
		}
		switch e.Verb {
		case "list":
			c.lists++
		case "watch":
			// A watch is written down when it begins and again when it ends.
			if e.Stage != "ResponseStarted" {
				continue
			}
			if u, err := url.Parse(e.RequestURI); err == nil && u.Query().Get("sendInitialEvents") == "true" {
				c.streamed++
			} else {
				c.watches++
			}
		case "get":
			c.gets++
		default:
			c.writes++
		}
	}
	return c
}
