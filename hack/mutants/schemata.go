package main

// schemata is what a changed package gets: which change is made, and which have been reached.
const schemata = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var (
	mutantMade, _ = strconv.Atoi(os.Getenv("MUTANT"))
	mutantSeen    = os.Getenv("MUTANTS_SEEN")
	mutantLock    sync.Mutex
	mutantReached = map[int]bool{}
)

func mutantOn(id int) bool {
	if mutantSeen != "" {
		mutantReach(id)
	}
	return id == mutantMade
}

func mutantReach(id int) {
	mutantLock.Lock()
	defer mutantLock.Unlock()
	if mutantReached[id] {
		return
	}
	mutantReached[id] = true
	file, err := os.OpenFile(mutantSeen, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.WriteString(strconv.Itoa(id) + "\n"); err != nil {
		panic(err)
	}
}

func mutantSign[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64](id int, op rune, x, y T) T {
	on := mutantOn(id)
	switch {
	case op == '+' && !on, op == '-' && on:
		return x + y
	case op == '+', op == '-':
		return x - y
	case op == '*' && !on, op == '/' && on:
		return x * y
	}
	return x / y
}
`
