package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// kubectl returns the documents that kubectl reads from a stream, without empty ones, or
// false if kubectl refuses the stream.
func kubectl(data []byte) ([]any, bool) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var out []any
	for {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return out, true
		case err != nil:
			return nil, false
		}
		value, err := decodeJSON(raw)
		if len(raw) > 0 && err != nil {
			return nil, false
		}
		if value != nil {
			out = append(out, value)
		}
	}
}

// FuzzRoundTrip: Parse returns every document that kubectl reads. Unchanged documents keep their
// bytes; changed ones are parsed again as the webhook's result.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("a: b\n---\n# c\n---\nd: e"))
	for _, pattern := range []string{"testdata/streams/*", "../mutate/testdata/*.in.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := Parse("x", data)
		if err != nil {
			return
		}
		if want, got := ended(bytes.TrimPrefix(data, []byte("\ufeff"))), Join(docs); !bytes.Equal(want, got) {
			t.Fatalf("%q became %q", data, got)
		}
		if want, ok := kubectl(data); ok {
			var got []any
			for _, d := range docs {
				if d.object != nil {
					got = append(got, d.object)
				}
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%q: kubectl reads %v, not %v", data, want, got)
			}
		}
		after, outcomes, err := Run(t.Context(), docs, Options{})
		if err != nil {
			return
		}
		again, err := Parse("y", Join(after))
		if err != nil || len(again) != len(docs) {
			t.Fatalf("%q became %q: %d documents, %v", data, Join(after), len(again), err)
		}
		for i := range docs {
			if !reflect.DeepEqual(again[i].object, after[i].object) {
				t.Fatalf("%q became %q, which is not what the webhook makes of it", docs[i].body, after[i].body)
			}
		}
		_, second, err := Run(t.Context(), again, Options{})
		if err != nil || len(second) != len(outcomes) {
			t.Fatalf("%q became %q: %d outcomes, not %d: %v", data, Join(after), len(second), len(outcomes), err)
		}
	})
}
