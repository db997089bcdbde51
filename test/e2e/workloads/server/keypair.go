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

// reload serves on with what it has if the files cannot be used: they are two,
// and between the one read and the other the kubelet may have swapped both.
func (k *keyPair) reload() {
	if err := k.load(); err != nil {
		log.Printf("goes on with the certificate from before: %v", err)
	}
}

// load reads the files, which are small, and parses them if they have changed.
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
