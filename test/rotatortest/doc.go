// Package rotatortest makes what the tests of the rotator's packages are about: pods,
// Services with conditions, and certificates. Tests alone import it.
package rotatortest
