package server

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// identity has what is presented to servers that request a client certificate, and reloads it.
type identity struct {
	watched
	file    string
	clock   func() time.Time
	current atomic.Pointer[proxy.Identity]
	data    []byte // of current; used only by the goroutine that calls look
}

func newIdentity(file string, clock func() time.Time, log *limitedLog) *identity {
	i := &identity{file: file, clock: clock}
	i.watched = watched{
		load: i.load,
		loaded: func() {
			current := i.current.Load()
			fields := []any{"identity", current.ID.String(), "notAfter", current.Certificate.Leaf.NotAfter}
			if current.Expired(clock()) != nil {
				log.warn("the identity has expired, presenting it nevertheless", fields...)
				return
			}
			log.info("identity loaded", fields...)
		},
		failed: func(err error) { log.error("cannot load the identity, presenting the previous one", "error", err) },
	}
	return i
}

// begin loads the identity. It is not waited for: the kubelet writes it before the proxy starts.
func (i *identity) begin() error {
	if _, err := i.load(); err != nil {
		return fmt.Errorf("--identity: %w", err)
	}
	i.have.Store(true)
	i.loaded()
	return nil
}

// load loads the file. One that has expired is loaded only at the start: servers may not ask for it.
func (i *identity) load() (changed bool, err error) {
	data, err := readFile(i.file)
	if err != nil || bytes.Equal(data, i.data) {
		return false, err
	}
	parsed, err := proxy.ParseIdentity(data)
	if err == nil && i.have.Load() {
		err = parsed.Expired(i.clock())
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", i.file, err)
	}
	i.current.Store(parsed)
	i.data = data
	return true, nil
}
