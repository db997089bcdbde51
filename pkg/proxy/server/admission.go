package server

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// admission has the list of admitted clients, and reloads it. Until it has been valid once, nobody is admitted.
type admission struct {
	watched
	file    string
	current atomic.Pointer[proxy.Admission]
	content []byte // of current; used only by the goroutine that calls look
}

// newAdmission returns an admission that calls changed after each change.
func newAdmission(file string, log *limitedLog, changed func()) *admission {
	a := &admission{file: file}
	a.current.Store(proxy.AdmitNobody())
	a.watched = watched{
		load: a.load,
		loaded: func() {
			log.info("list of clients loaded", "guarded", a.current.Load().Ports())
			changed()
		},
		waiting: func(err error) { log.error("cannot load the list of clients, refusing all clients", "error", err) },
		failed: func(err error) {
			log.error("cannot load the list of clients, the previous one stays in force", "error", err)
		},
	}
	return a
}

// begin loads the list, and logs why it cannot be loaded.
func (a *admission) begin() {
	if a.look(); !a.have.Load() {
		a.look() // an error is reported the second time
	}
}

func (a *admission) load() (changed bool, err error) {
	content, err := readFile(a.file)
	if err != nil || a.have.Load() && bytes.Equal(content, a.content) {
		return false, err
	}
	list, err := proxy.ParseAdmission(string(content))
	if err != nil {
		return false, fmt.Errorf("%s: %w", a.file, err)
	}
	a.current.Store(list)
	a.content = content
	return true, nil
}

// clientRoots has the roots that verify clients, and reloads them.
type clientRoots struct {
	watched
	file    string
	current atomic.Pointer[proxy.ClientRoots]
	pem     []byte // of current; used only by the goroutine that calls look
}

func newClientRoots(file string, log *limitedLog) *clientRoots {
	r := &clientRoots{file: file}
	r.watched = watched{
		load: r.load,
		loaded: func() {
			current := r.current.Load()
			log.info("CA bundle for clients loaded", "trustDomain", current.TrustDomain, "certificates", current.Size, "ignored", current.Ignored)
		},
		waiting: func(err error) { log.info("waiting for the CA bundle for clients", "error", err) },
		failed: func(err error) {
			log.error("cannot load the CA bundle for clients, clients are verified with the previous one", "error", err)
		},
	}
	return r
}

func (r *clientRoots) load() (changed bool, err error) {
	pem, err := readFile(r.file)
	if err != nil || bytes.Equal(pem, r.pem) {
		return false, err
	}
	roots, err := proxy.ParseClientRoots(pem, largestFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.file, err)
	}
	r.current.Store(roots)
	r.pem = pem
	return true, nil
}
