package fails

import "testing"

func TestFails(t *testing.T) { t.Fatal("as it always does") }
