package signer

import corev1 "k8s.io/api/core/v1"

// PackedService is a Service in as many bytes as the API server sends of it, and in one piece:
// most of a Service in memory is room for what it does not have.
type PackedService string

// PackService returns the Service, of which only what Keep names counts, as a cache keeps it.
func PackService(svc *corev1.Service) PackedService {
	encoded, err := svc.Marshal()
	if err != nil {
		panic(err) // it was decoded
	}
	return PackedService(encoded)
}

// Unpack returns the Service.
func (s PackedService) Unpack() *corev1.Service {
	var svc corev1.Service
	if err := svc.Unmarshal([]byte(s)); err != nil {
		panic(err) // PackService wrote it
	}
	return &svc
}
