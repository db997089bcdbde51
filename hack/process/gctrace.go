package process

import (
	"bufio"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Collections summarizes the garbage collections of a process that GODEBUG=gctrace=1 reports.
type Collections struct {
	N    int
	CPU  time.Duration
	Live float64 // bytes in use after the last one
}

// traceLine is a line of gctrace; see the documentation of package runtime:
//
//	gc 12 @1.306s 2%: 0.024+3.1+0.012 ms clock, 0.049+0.41/2.9/0+0.024 ms cpu, 9->10->5 MB, 11 MB goal, …
var traceLine = regexp.MustCompile(`^gc \d+ @.* ms clock, ([0-9.+/e-]+) ms cpu, \d+->\d+->(\d+) MB`)

// ReadCollections reads the gctrace lines in a log.
func ReadCollections(log io.Reader) (Collections, error) {
	var c Collections
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		match := traceLine.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		for part := range strings.FieldsFuncSeq(match[1], func(r rune) bool { return r == '+' || r == '/' }) {
			took, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return Collections{}, err
			}
			c.CPU += time.Duration(took * float64(time.Millisecond))
		}
		megabytes, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return Collections{}, err
		}
		c.N++
		c.Live = megabytes * (1 << 20)
	}
	return c, lines.Err()
}
