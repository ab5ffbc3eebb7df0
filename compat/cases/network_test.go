package cases

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/raw"
)

// header returns a framed request with this key and version, an old-style header and a body.
func header(key, version int16, correlation uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = append(b, 0, 6, 'c', 'o', 'm', 'p', 'a', 't')
	b = append(b, body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func apiVersions(t testing.TB, c *raw.Conn, version int16) map[int16][2]int16 {
	t.Helper()
	r := raw.With(kmsg.NewPtrApiVersionsRequest(), version)
	r.ClientSoftwareName, r.ClientSoftwareVersion = "compat", "1"
	answer := raw.Do[*kmsg.ApiVersionsResponse](c, r)
	wantCode(t, "ApiVersions", answer.ErrorCode, nil)
	ranges := map[int16][2]int16{}
	for _, key := range answer.ApiKeys {
		ranges[key.ApiKey] = [2]int16{key.MinVersion, key.MaxVersion}
	}
	return ranges
}

// TestN1ApiVersionsOfTheFuture: a version that the broker does not know is answered in the format of v0 with its own range,
// and the connection stays usable.
func TestN1ApiVersionsOfTheFuture(t *testing.T) { everywhere(t, n1ApiVersionsOfTheFuture) }

func n1ApiVersionsOfTheFuture(t *testing.T, b *server) {
	c := raw.Dial(t, b.Addr)
	// Version 99 with the header and body of v3: tags, name, version, tags.
	c.Write(header(18, 99, 7, 0, 4, 'f', 'o', 'o', 2, '1', 0))
	got := c.Frame()
	want := map[harness.Kind]uint16{harness.Gregor: 5, harness.Kafka39: 4, harness.Kafka44: 5}[b.Kind]
	expected := binary.BigEndian.AppendUint32(nil, 7)
	expected = append(expected, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0)
	expected = binary.BigEndian.AppendUint16(expected, want)
	if string(got) != string(expected) {
		t.Errorf("the answer is %x, want %x", got, expected)
	}
	for version := range int16(5) {
		if n := len(apiVersions(t, c, version)); n < 20 {
			t.Errorf("v%d answers %d keys", version, n)
		}
	}

	r := raw.With(kmsg.NewPtrApiVersionsRequest(), 3)
	r.ClientSoftwareName, r.ClientSoftwareVersion = "bad name!", "1"
	wantCode(t, "a bad software name", raw.Do[*kmsg.ApiVersionsResponse](c, r).ErrorCode, kerr.InvalidRequest)
	apiVersions(t, c, 0)
}

// TestN3AdvertisedVersions: the ranges that clients decide by.
func TestN3AdvertisedVersions(t *testing.T) { everywhere(t, n3AdvertisedVersions) }

func n3AdvertisedVersions(t *testing.T, b *server) {
	got := apiVersions(t, raw.Dial(t, b.Addr), 3)
	// The union of 3.9 and 4.4 for a broker alone.
	want := map[harness.Kind]map[int16][2]int16{
		harness.Gregor: {0: {0, 13}, 1: {0, 18}, 2: {0, 11}, 3: {0, 13}, 8: {0, 10}, 9: {0, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5},
			14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 18: {0, 5}, 19: {0, 7}, 20: {0, 6}, 21: {0, 2}, 22: {0, 5}, 23: {0, 4}, 32: {0, 4},
			33: {0, 2}, 35: {0, 5}, 37: {0, 3}, 42: {0, 3}, 44: {0, 1}, 47: {0, 0}, 60: {0, 2}, 61: {0, 0}, 75: {0, 0}},
		harness.Kafka39: {0: {0, 11}, 1: {0, 17}, 2: {0, 9}, 3: {0, 12}, 18: {0, 4}, 22: {0, 5}},
		harness.Kafka44: {0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 18: {0, 5}, 22: {0, 5}},
	}[b.Kind]
	for key, versions := range want {
		if got[key] != versions {
			t.Errorf("%s: versions %v, want %v", kmsg.NameForKey(key), got[key], versions)
		}
	}
	if b.Kind == harness.Gregor {
		for _, key := range []int16{4, 5, 6, 7, 52, 56, 58, 62, 67} {
			if versions, ok := got[key]; ok {
				t.Errorf("%s is advertised (%v): clients must not use it", kmsg.NameForKey(key), versions)
			}
		}
	}
}

// TestN3UnknownRequests: any other API in an unknown version, or an unknown key, closes the connection without an answer.
func TestN3UnknownRequests(t *testing.T) { everywhere(t, n3UnknownRequests) }

func n3UnknownRequests(t *testing.T, b *server) {
	for what, frame := range map[string][]byte{
		"Metadata v99":              header(3, 99, 1, 0, 0, 0, 0),
		"key 200":                   header(200, 0, 1),
		"a negative version":        header(3, -1, 1),
		"a negative key":            header(-3, 0, 1),
		"a negative length":         {0xff, 0xff, 0xff, 0xff},
		"a huge length":             {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"a length of 0":             {0, 0, 0, 0},
		"a header cut off":          {0, 0, 0, 3, 0, 18, 0},
		"a body cut off":            header(3, 4, 1, 0, 0),
		"HTTP":                      []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a TLS hello":               {0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3},
		"an array that claims much": header(3, 4, 1, 0x7f, 0xff, 0xff, 0xff),
	} {
		t.Run(what, func(t *testing.T) {
			c := raw.Dial(t, b.Addr)
			c.Write(frame)
			c.ExpectClosed()
		})
	}
	apiVersions(t, raw.Dial(t, b.Addr), 0) // and it still serves
}
