// Package controller answers PodCertificateRequests as package podcert decides, once the
// API server serves them. An answer costs one read, of the pod, and one write.
package controller
