package programs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/servingcert/servingcert/test/bounded"
)

// hostileTables are large documents; a ConfigMap can hold four times as much.
func hostileTables() map[string]string {
	const size = 256 << 10
	repeated := func(head, each, tail string) string {
		return head + strings.Repeat(each, (size-len(head)-len(tail))/len(each)) + tail
	}
	numbered := func(head, format, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size-100; i++ {
			fmt.Fprintf(&b, format, i)
		}
		b.WriteString(tail)
		return b.String()
	}
	alias := "- &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		alias += fmt.Sprintf("- &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	return map[string]string{
		"variables":   numbered("- {program: a, images: [a], reload: restart, env: [", "{name: A%d, value: x},", "]}"),
		"flags":       repeated("- {program: a, images: [a], reload: restart, flags: [", `"-{x}",`, "]}"),
		"images":      numbered("- {program: a, reload: restart, images: [", "a%d,", "]}"),
		"files":       numbered("- {program: a, images: [a], reload: restart, flags: [-a], files: {", "a%d: x,", "}}"),
		"values":      repeated("- [", ",~", "]"),
		"unknown":     numbered("- {", "f%d: 1,", "}"),
		"wrong types": repeated("[", "1,", "]"),
		"nested":      repeated("", "[", ""),
		"programs":    repeated("", "- {program: A}\n", ""),
		"aliases":     alias,
		"bytes":       repeated("", "\xff", ""),
	}
}

// checkTable checks that the cost and the errors of Parse are bounded by the size of the document.
func checkTable(t *testing.T, data []byte) {
	t.Helper()
	var err error
	allocated := bounded.Allocated(func() { _, err = Parse(data) })
	if most := uint64(1<<20+400*len(data)) * bounded.RaceFactor; allocated > most {
		t.Fatalf("%d bytes became %d: %.300q", len(data), allocated, data)
	}
	if err := bounded.Took(bounded.RaceFactor*(300*time.Millisecond+time.Duration(len(data))*5*time.Microsecond), func() { _, _ = Parse(data) }); err != nil {
		t.Fatalf("%d bytes: %s: %.300q", len(data), err, data)
	}
	if err != nil && len(err.Error()) > maxSaid {
		t.Fatalf("%d bytes of error: %.300s", len(err.Error()), err)
	}
}

// FuzzTable: for any content of ConfigMap servingcert-programs, the cost of reading it is bounded by
// a multiple of its size.
func FuzzTable(f *testing.F) {
	f.Add([]byte(`- {program: a, images: [a], flags: ["--cert={cert}"], env: [{name: A, value: "{dir}"}], config: {x: "{key}"}, files: {y: tls.crt}, reload: restart}`))
	f.Add([]byte("- &a {program: a, none: x, executables: [a]}\n- *a\n"))
	f.Add([]byte("- [[,~]]\n---\n"))
	for _, table := range hostileTables() {
		f.Add([]byte(table))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkTable(t, data)
		if table, err := Parse(data); err == nil {
			for _, p := range table.All() {
				for _, v := range p.Env {
					if v.loadsCode() {
						t.Fatalf("%s=%s", v.Name, v.Value)
					}
				}
			}
		}
	})
}

// TestALongImageCostsLittle: the image of a container has any length.
func TestALongImageCostsLittle(t *testing.T) {
	for _, image := range []string{strings.Repeat("/", 3<<20), strings.Repeat("a", 3<<20), "prometheus:1-" + strings.Repeat("a", 3<<20)} {
		var p *Program
		allocated := bounded.Allocated(func() { p, _ = Builtin().ByImage(image) })
		if p != nil || allocated > 4<<10 {
			t.Errorf("%.20s…: program %v, %d bytes allocated", image, p, allocated)
		}
	}
}
