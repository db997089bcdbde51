package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// etcdPage is the number of objects per request to etcd.
const etcdPage = 500

// Stored is an object in etcd.
type Stored struct {
	Key   []byte `json:"key"` // such as /registry/secrets/NAMESPACE/NAME
	Value []byte `json:"value"`
}

// EachStored calls do for each object in etcd, ordered by key. If do returns an error, EachStored
// stops and returns it.
func (n *Node) EachStored(ctx context.Context, do func(Stored) error) error {
	client, err := n.prober()
	if err != nil {
		return err
	}
	return eachStored(ctx, client, "https://"+n.at(2379), do)
}

// rangeRequest and rangeResponse are messages of etcd's KV service (etcdserverpb), in the JSON of its
// gateway: 64-bit numbers are strings.
type rangeRequest struct {
	Key      []byte `json:"key"`
	RangeEnd []byte `json:"range_end"` // a zero byte means up to the last key
	Limit    int    `json:"limit"`
	Revision string `json:"revision,omitempty"`
}

type rangeResponse struct {
	Header struct {
		Revision string `json:"revision"`
	} `json:"header"`
	Stored []Stored `json:"kvs"`
	More   bool     `json:"more"`
}

func eachStored(ctx context.Context, client *http.Client, etcd string, do func(Stored) error) error {
	request := rangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Limit: etcdPage}
	for {
		page, err := readRange(ctx, client, etcd, request)
		if err != nil {
			return fmt.Errorf("read etcd from key %q: %w", request.Key, err)
		}
		for _, stored := range page.Stored {
			if err := do(stored); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		if len(page.Stored) == 0 {
			return errors.New("read etcd: empty page although there are more")
		}
		last := page.Stored[len(page.Stored)-1].Key
		request.Key = append(bytes.Clone(last), 0)
		request.Revision = page.Header.Revision // all pages have the same revision
	}
}

func readRange(ctx context.Context, client *http.Client, etcd string, r rangeRequest) (page rangeResponse, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return page, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd+"/v3/kv/range", bytes.NewReader(body))
	if err != nil {
		return page, err
	}
	response, err := client.Do(request)
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return page, fmt.Errorf("etcd: %s", response.Status)
	}
	return page, json.NewDecoder(response.Body).Decode(&page)
}
