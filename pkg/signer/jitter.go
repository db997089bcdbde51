package signer

import "time"

// Jitter returns between half of d and d, by chance in [0,1).
func Jitter(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(chance*float64(d/2))
}
