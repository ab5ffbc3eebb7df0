package buffers

import (
	"testing"

	"github.com/gregor-broker/gregor/wire/invariants"
)

func TestClasses(t *testing.T) {
	last := 0
	for n := 0; n < 1<<21; n = n*9/8 + 1 {
		for _, n := range []int{n, sizeOf(max(classFor(n), 0)), sizeOf(max(classFor(n), 0)) + 1} {
			c := classFor(n)
			size := sizeOf(c)
			if size < n || n > 256 && size > n+n/4+1 {
				t.Fatalf("%d bytes get %d", n, size)
			}
			if c > 0 && sizeOf(c-1) >= n {
				t.Fatalf("%d bytes get class %d, though %d would do", n, c, c-1)
			}
			if classFor(size) != c {
				t.Fatalf("a buffer of class %d comes back to class %d", c, classFor(size))
			}
			last = max(last, c)
		}
	}
	if c := classFor(1 << maxShift); c != classes-1 || sizeOf(c) != 1<<maxShift || classFor(1<<maxShift+1) != -1 {
		t.Errorf("the largest class is %d of %d", c, classes)
	}
}

func TestReuse(t *testing.T) {
	var p Pool
	b := p.Get(5000)
	if len(b) != 5000 || cap(b) != 5120 {
		t.Fatalf("%d/%d", len(b), cap(b))
	}
	b[0] = 7
	p.Put(b)
	if invariants.Enabled && b[0] != 0xdb {
		t.Error("a returned buffer is not overwritten")
	}
	if p.Kept() != 5120 {
		t.Errorf("%d bytes kept", p.Kept())
	}
	c := p.Get(4900)
	if &c[0] != &b[0] || len(c) != 4900 || p.Kept() != 0 {
		t.Error("the buffer was not used again")
	}
}

func TestBounds(t *testing.T) {
	var p Pool
	fill := func(size, count int) {
		var all [][]byte
		for range count {
			all = append(all, p.Get(size))
		}
		for _, b := range all {
			p.Put(b)
		}
	}
	fill(256, 300)
	if p.Kept() != 256*256 {
		t.Errorf("%d bytes of 256-byte buffers kept", p.Kept())
	}
	fill(1<<20, 10)
	fill(1<<21, 10)
	fill(1<<19, 20)
	fill(3<<19, 20)
	fill(3<<20, 20)
	if p.Kept() > bytesInAll {
		t.Errorf("%d bytes kept", p.Kept())
	}
	p.Drop()
	if p.Kept() != 0 {
		t.Errorf("%d bytes kept after Drop", p.Kept())
	}
	fill(9<<20, 2)
	p.Put(make([]byte, 777)) // no class's size
	if p.Kept() != 0 {
		t.Error("a foreign slice, or one without a class, was kept")
	}
}

func BenchmarkGetPut(b *testing.B) {
	var p Pool
	b.ReportAllocs()
	for b.Loop() {
		p.Put(p.Get(1 << 16))
	}
}
