package api

import (
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions tells a client what is served. Its response header is v0 at every version, so that a client that cannot
// know our versions yet can read it (KIP-511).
// v3 client software name and version, flexible · v5 the cluster and node that the client expects (KIP-1242).
// Errors: UNSUPPORTED_VERSION, INVALID_REQUEST, REBOOTSTRAP_REQUIRED.
var apiVersions = Entry{
	Key: kmsg.ApiVersions, ZooKeeper: v(0, 4), Kafka4: v(0, 5),
	Access: anyone, Cost: 4, Runs: onProcessor,
	Serve: serveApiVersions,
}

// softwareName is what a client may call itself and its version (ApiVersionsRequest of Apache Kafka).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func serveApiVersions(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.ApiVersionsRequest)
	response := kmsg.NewPtrApiVersionsResponse()
	response.ErrorCode = checkApiVersions(s, r)
	if response.ErrorCode == 0 {
		inForce := s.Features() // first: what is served may change meanwhile
		if r.Version >= 3 {
			who := Client{inShort(r.ClientSoftwareName), inShort(r.ClientSoftwareVersion), c.Listener()}
			s.Clients.met(c.request.Conn, told{who, inForce.Epoch})
		}
		response.ApiKeys = s.APIs().advertised()
		s.addFeatures(response, inForce, r.Version)
	}
	c.Reply(response)
}

// softwareBytes is how much of what a client calls itself is kept for as long as its connection lasts.
const softwareBytes = 128

func inShort(s string) string {
	if len(s) <= softwareBytes {
		return s
	}
	return strings.Clone(s[:softwareBytes])
}

func checkApiVersions(s *Services, r *kmsg.ApiVersionsRequest) int16 {
	if r.Version >= 3 && !(softwareName.MatchString(r.ClientSoftwareName) && softwareName.MatchString(r.ClientSoftwareVersion)) {
		return kerr.InvalidRequest.Code
	}
	if r.ClusterID != nil && *r.ClusterID != s.ClusterID || r.Version >= 5 && r.NodeID >= 0 && r.NodeID != s.BrokerID {
		return kerr.RebootstrapRequired.Code
	}
	return 0
}

func (t *Table) advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(t.byKey))
	for _, e := range t.Entries() {
		served := e.Served(t.mode)
		keys = append(keys, kmsg.ApiVersionsResponseApiKey{
			ApiKey: e.Key.Int16(), MinVersion: served.Min, MaxVersion: served.Max,
		})
	}
	return keys
}

// unsupportedApiVersions answers a version of ApiVersions that is newer than ours: in the form of version 0, with our
// range, so that the client asks again.
func (c *Call) unsupportedApiVersions(s *Services) {
	served := s.APIs().Versions(kmsg.ApiVersions.Int16())
	response := kmsg.NewPtrApiVersionsResponse()
	response.Version = 0
	response.ErrorCode = kerr.UnsupportedVersion.Code
	response.ApiKeys = []kmsg.ApiVersionsResponseApiKey{
		{ApiKey: kmsg.ApiVersions.Int16(), MinVersion: served.Min, MaxVersion: served.Max},
	}
	c.reply(response)
}
