package fairqueue

// ordered is an element of a heap. order returns a negative number if it comes before the
// other one; moved sets its index.
type ordered[E any] interface {
	order(other E) int
	moved(to int)
}

// heapOf is a heap.Interface.
type heapOf[E ordered[E]] []E

func (h heapOf[E]) Len() int           { return len(h) }
func (h heapOf[E]) Less(i, j int) bool { return h[i].order(h[j]) < 0 }

func (h heapOf[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].moved(i)
	h[j].moved(j)
}

func (h *heapOf[E]) Push(x any) {
	e := x.(E)
	e.moved(len(*h))
	*h = append(*h, e)
}

func (h *heapOf[E]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	clear((*h)[last:]) // so that it can be garbage collected
	*h = (*h)[:last]
	return e
}
