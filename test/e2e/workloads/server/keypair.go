package main

import (
	"bytes"
	"crypto/tls"
	"log"
	"os"
	"sync"
)

// keyPair is a key pair in two files.
type keyPair struct {
	certFile, keyFile string

	mu              sync.Mutex
	certPEM, keyPEM []byte
	pair            *tls.Certificate
}

func (k *keyPair) current() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pair
}

// reload keeps the previous certificate if the files are invalid: the kubelet may have replaced both
// between the two reads.
func (k *keyPair) reload() {
	if err := k.load(); err != nil {
		log.Printf("keeping the previous certificate: %v", err)
	}
}

// load reads the files, and parses them if they have changed.
func (k *keyPair) load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	certPEM, err := os.ReadFile(k.certFile)
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(k.keyFile)
	if err != nil {
		return err
	}
	if k.pair != nil && bytes.Equal(certPEM, k.certPEM) && bytes.Equal(keyPEM, k.keyPEM) {
		return nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	k.certPEM, k.keyPEM, k.pair = certPEM, keyPEM, &pair
	log.Printf("loaded certificate %x", pair.Leaf.SerialNumber)
	return nil
}
