package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var (
	// refused is what an API server says to those who lack a right.
	refused = regexp.MustCompile(`(?i)forbidden`)
	// privateKey is how every kind of private key begins in PEM.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
)

// checkLogs looks for what must not be in a log: a right that is missing, or a
// private key.
func (d *demo) checkLogs(context.Context) error {
	total := 0
	names := []string{web}
	for _, p := range d.Processes {
		names = append(names, p.Name())
	}
	for _, name := range names {
		lines, err := searchLog(d.logFile(name), refused, privateKey)
		if err != nil {
			return err
		}
		total += lines
	}
	for component := range d.Plane.PIDs() {
		if _, err := searchLog(filepath.Join(d.Plane.LogDir(), component+".log"), privateKey); err != nil {
			return err
		}
	}
	d.out.printf("%d lines of signer, rotator, webhook and server: no \"forbidden\", and no private key\n", total)
	return nil
}

// searchLog returns the number of lines, or an error with the first one that one
// of the patterns matches.
func searchLog(file string, patterns ...*regexp.Regexp) (lines int, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, len(data)+1)
	for ; scanner.Scan(); lines++ {
		for _, pattern := range patterns {
			if found := pattern.Find(scanner.Bytes()); found != nil {
				return 0, fmt.Errorf("%s, line %d has %q in it: %s", filepath.Base(file), lines+1, found, scanner.Text())
			}
		}
	}
	return lines, scanner.Err()
}
