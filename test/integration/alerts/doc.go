// Package alerts makes every alert of deploy/alerts.yaml fire once: the three processes run as they are installed,
// on a real control plane, a real Prometheus scrapes them over TLS with its token, and what an alert watches is
// broken.
package alerts
