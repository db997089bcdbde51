package month

import "testing"

func TestMonth(t *testing.T) {
	if Rest(1, 31) != 30 || Rest(40, 31) != -1 || Rest(-1, 31) != -1 {
		t.Error("Rest")
	}
	if !Leap(2024) || !Leap(2000) || Leap(1900) || Leap(2023) {
		t.Error("Leap")
	}
	if Sets(1, 2) != 3 {
		t.Error("Sets")
	}
	if Sum() != 0 || Sum(1, 4) != 7 {
		t.Error("Sum")
	}
}
