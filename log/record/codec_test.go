package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

func TestCodecNames(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Error(c, got, err)
		}
	}
	if _, err := ParseCodec("brotli"); err == nil {
		t.Error("brotli is no codec of Kafka")
	}
	for name, want := range map[string]Compression{
		"producer": {}, "uncompressed": {Fixed: true}, "zstd": {Fixed: true, Codec: Zstd, Level: 5},
	} {
		if got, err := ParseCompression(name, 5); err != nil || got != want {
			t.Error(name, got, err)
		}
	}
	for _, name := range []string{"none", "", "Gzip"} {
		if _, err := ParseCompression(name, 0); err == nil {
			t.Errorf("%q is no compression.type", name)
		}
	}
}

// TestCompress compresses and decompresses around the sizes of blocks and windows, with every level.
func TestCompress(t *testing.T) {
	text := bytes.Repeat([]byte("Kafka compresses whole batches. "), 20_000)
	for c := None; c <= Zstd; c++ {
		for level := -1; level <= 17; level++ {
			for _, n := range []int{0, 1, 100, xerialBlockSize - 1, xerialBlockSize, lz4WriteBlock + 1, len(text)} {
				if n > 100 && level > 0 && level%8 != 0 {
					continue
				}
				z, err := Compress([]byte("head"), c, level, text[:n])
				if err != nil || string(z[:4]) != "head" {
					t.Fatal(c, level, n, err)
				}
				got, err := Decompress([]byte("x"), c, z[4:], int64(n))
				if err != nil || !bytes.Equal(got[1:], text[:n]) {
					t.Fatalf("%v level %d, %d bytes: %d bytes, %v", c, level, n, len(got), err)
				}
				if _, err := Decompress(nil, c, z[4:], int64(n-1)); n > 0 && !errors.Is(err, ErrTooLarge) {
					t.Fatalf("%v level %d, %d bytes: %v", c, level, n, err)
				}
			}
		}
	}
}

// TestForeignStreams reads what other writers of the formats write.
func TestForeignStreams(t *testing.T) {
	text := bytes.Repeat([]byte("some text, some more text; "), 30_000)
	raw := s2.EncodeSnappy(nil, text)
	read(t, "raw snappy", Snappy, 2, raw, text)
	half, err := Compress(nil, Snappy, 0, text[:100])
	if err != nil {
		t.Fatal(err)
	}
	read(t, "xerial streams one after the other", Snappy, 2, join(half, half), join(text[:100], text[:100]))

	for _, options := range [][]lz4.Option{
		{lz4.ChecksumOption(true)},
		{lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block256Kb)},
		{lz4.SizeOption(uint64(len(text))), lz4.BlockSizeOption(lz4.Block4Mb)},
	} {
		var z bytes.Buffer
		w := lz4.NewWriter(&z)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		read(t, "lz4", LZ4, 2, z.Bytes(), text)
	}
	s := sink{max: maxEntryBytes}
	if err := compressTo(&s, LZ4, 0, 0, text); err != nil {
		t.Fatal(err)
	}
	read(t, "lz4 of magic 0", LZ4, 0, s.buf, text)
	if _, err := Decompress(nil, LZ4, s.buf, 1<<30); err == nil {
		t.Error("the header checksum of magic 0 is wrong for magic 1 and 2")
	}
	if _, err := io.Copy(io.Discard, lz4.NewReader(bytes.NewReader(s.buf))); err == nil {
		t.Error("the header checksum of magic 0 is wrong for others")
	}
}

// TestOthersReadOurs lets other readers of the formats read what we write.
func TestOthersReadOurs(t *testing.T) {
	text := bytes.Repeat([]byte("some text, some more text; "), 30_000)
	z, _ := Compress(nil, LZ4, 0, text)
	if got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(z))); err != nil || !bytes.Equal(got, text) {
		t.Error("lz4:", err)
	}
}

func read(t *testing.T, name string, c Codec, magic int8, z, want []byte) {
	t.Helper()
	v, release, err := openWindow(c, magic, z, 1<<30)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer release()
	defer v.close()
	if err := v.need(len(want)); err != nil || !bytes.Equal(v.buf[v.r:v.w], want) {
		t.Errorf("%s: %v", name, err)
	}
	if end, err := v.atEnd(); !end && v.w-v.r != len(want) || err != nil {
		t.Errorf("%s: %v at the end", name, err)
	}
}

// TestS2IsNotSnappy refuses what our decoder could read and no other.
func TestS2IsNotSnappy(t *testing.T) {
	text := bytes.Repeat([]byte("abcdefgh, repeated offsets are s2's own. "), 3000)
	if _, err := Decompress(nil, Snappy, s2.EncodeBest(nil, text), 1<<30); err == nil {
		t.Error("an s2 block was read as snappy")
	}
}

func TestXXH32(t *testing.T) {
	// Vectors of the specification's reference implementation.
	for in, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("xxh32(%q) = %#x, want %#x", in, got, want)
		}
	}
}

// TestBombs opens batches that decompress to much more than they are, and counts the memory that takes.
func TestBombs(t *testing.T) {
	const size = 48 << 20
	for c := Gzip; c <= Zstd; c++ {
		// One record, as large as the whole: its size and fields, then zeros.
		value := int64(size - 20)
		var head []byte
		head = append(head, 0, 0, 0, 1)
		head = appendVarint(head, value)
		body := int64(len(head)) + value + 1
		head = append(appendVarint(nil, body), head...)
		s := sink{max: maxEntryBytes}
		w, err := newCompressor(c, 0, 2, &s)
		if err != nil {
			t.Fatal(err)
		}
		chunk := make([]byte, 1<<20)
		w.Write(head)
		for n := value + 1; n > 0; n -= int64(len(chunk)) {
			w.Write(chunk[:min(n, int64(len(chunk)))])
		}
		w.Close()
		b := batchOf(c, s.buf, 1)
		rules := testRules("create", testTime)
		rules.MaxBatchBytes = 1 << 30
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = Check(b, 9, rules)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 12<<20 {
			t.Errorf("%v: a check of %d bytes that become %d allocated %d", c, len(b), size, got)
		}
		for _, err := range b.Records(Limits{MaxRecordBytes: 1 << 20}) {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v: %v", c, err)
			}
		}
		for _, err := range b.Records(Limits{MaxTotalBytes: 1 << 20}) {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v: %v", c, err)
			}
		}
	}
}

// batchOf is a batch with a payload as it is.
func batchOf(c Codec, payload []byte, count int32) Batch {
	b := append(three(None)[:HeaderSize:HeaderSize], payload...)
	return edit(b, func(b Batch) {
		b.setSize()
		b.setAttributes(int16(c))
		binary.BigEndian.PutUint32(b[posCount:], uint32(count))
		binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(count-1))
	})
}

// TestClaims opens what claims to be large and is not: nothing is allocated for it.
func TestClaims(t *testing.T) {
	lz4Claim := binary.LittleEndian.AppendUint32(nil, lz4Magic)
	lz4Claim = append(lz4Claim, lz4Version|lz4Independent, 7<<4)
	lz4Claim = append(lz4Claim, byte(xxh32(lz4Claim[4:])>>8), 2, 0, 0, 0, 0x10, 'x', 0, 0, 0, 0)
	claims := map[string]struct {
		c Codec
		p []byte
	}{
		"record":        {Gzip, mustCompress(Gzip, []byte{0xfe, 0xff, 0xff, 0x7f, 0, 0})},
		"snappy":        {Snappy, []byte{0xff, 0xff, 0xff, 0x7f, 0, 'x'}},
		"lz4 block":     {LZ4, lz4Claim},
		"zstd window":   {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x09, 0x00, 0x00, 'x'}},
		"zstd content":  {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0x00, 0x00, 0x00, 0x40, 0x09, 0x00, 0x00, 'x'}},
		"zstd content2": {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x50, 0x00, 0x00, 0x00, 0x40, 0x09, 0x00, 0x00, 'x'}},
	}
	for name, claim := range claims {
		b := batchOf(claim.c, claim.p, 1)
		Check(bytes.Clone(b), 9, testRules("create", testTime)) // fills the pools
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Check(b, 9, testRules("create", testTime)); err == nil {
			t.Errorf("%s: accepted", name)
		}
		for _, err := range b.Records(Limits{}) {
			if err == nil {
				t.Errorf("%s: read", name)
			}
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 { // the race detector empties pools, and a decoder takes a megabyte; the claims are of 128 and more
			t.Errorf("%s: %d bytes allocated for %d", name, got, len(b))
		}
	}
}

func mustCompress(c Codec, p []byte) []byte {
	z, err := Compress(nil, c, 0, p)
	if err != nil {
		panic(err)
	}
	return z
}

// TestZstdWindows reads frames whose window is larger than we allocate for a claim, as the highest levels write them.
func TestZstdWindows(t *testing.T) {
	text := make([]byte, 3<<20)
	for i := range text {
		text[i] = byte(i * i >> 7)
	}
	for _, window := range []int{1 << 20, 16 << 20, 128 << 20} {
		for _, known := range []bool{false, true} {
			enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(known))
			if err != nil {
				t.Fatal(err)
			}
			var z []byte
			if known {
				z = enc.EncodeAll(text, nil)
			} else {
				var out bytes.Buffer
				enc.Reset(&out)
				enc.Write(text)
				enc.Close()
				z = out.Bytes()
			}
			read(t, "zstd", Zstd, 2, z, text)
		}
	}
}
