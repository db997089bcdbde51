// Package fault has the means to break what servingcert stands on: proxies that are slow or
// answer wrongly, a clock that is wrong, and a disk that is full.
package fault
