package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
)

func TestParseSizes(t *testing.T) {
	for text, expected := range map[string][]int{
		"500 2000 10000 30000": {500, 2000, 10000, 30000},
		"500,2000":             {500, 2000},
		" 7 ":                  {7},
		"":                     nil,
	} {
		sizes, err := parseSizes(text)
		require.NoError(t, err)
		assert.Equal(t, expected, sizes)
	}
	for _, text := range []string{"many", "0", "500 -1", "1.5"} {
		_, err := parseSizes(text)
		assert.ErrorContains(t, err, "must be a positive number")
	}
}

func TestCount(t *testing.T) {
	event := func(user, verb, stage, uri string) controlplane.AuditEvent {
		return controlplane.AuditEvent{User: controlplane.AuditUser{Username: user}, Verb: verb, Stage: stage, RequestURI: uri}
	}
	events := []controlplane.AuditEvent{
		event(userA, "list", "ResponseComplete", "/api/v1/secrets?limit=500"), // before
		event(userA, "list", "ResponseComplete", "/api/v1/secrets?limit=500"),
		event(userA, "list", "ResponseComplete", "/api/v1/secrets?continue=x&limit=500"),
		event(userB, "list", "ResponseComplete", "/api/v1/secrets"),
		event(userA, "watch", "ResponseStarted", "/api/v1/services?sendInitialEvents=true&watch=true"),
		event(userA, "watch", "ResponseComplete", "/api/v1/services?sendInitialEvents=true&watch=true"),
		event(userA, "watch", "ResponseStarted", "/api/v1/services?resourceVersion=7&watch=true"),
		event(userA, "watch", "ResponseStarted", "/api/v1/namespaces?sendInitialEvents=true&watch=true"),
		event(userA, "get", "ResponseComplete", "/api/v1/namespaces/x/configmaps/y"),
		event(userA, "update", "ResponseComplete", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y"),
		event(userA, "patch", "ResponseComplete", "/api/v1/namespaces/x/services/y/status"),
	}
	assert.Equal(t, counted{streamed: 2, lists: 2, watches: 1, gets: 1, writes: 2, events: 11}, count(events, userA, 1))
	assert.Equal(t, counted{lists: 1, events: 11}, count(events, userB, 0))
	assert.Equal(t, counted{events: 11}, count(events, userA, 11))
}
