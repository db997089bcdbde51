package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Stored is an object in etcd.
type Stored struct {
	Key   []byte `json:"key"` // such as /registry/secrets/NAMESPACE/NAME
	Value []byte `json:"value"`
}

// Stored returns all objects in etcd, as they are at one moment.
func (n *Node) Stored(ctx context.Context) ([]Stored, error) {
	client, err := n.prober()
	if err != nil {
		return nil, err
	}
	// In JSON, etcd's KV service has keys in base64. A zero byte is before the first key, and after the last one.
	everything := strings.NewReader(`{"key": "AA==", "range_end": "AA=="}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+n.at(2379)+"/v3/kv/range", everything)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read etcd: %s", response.Status)
	}
	var read struct {
		Stored []Stored `json:"kvs"`
	}
	err = json.NewDecoder(response.Body).Decode(&read)
	return read.Stored, err
}
