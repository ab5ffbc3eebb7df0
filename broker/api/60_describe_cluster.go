package api

import (
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster tells the cluster's id, its brokers and its controller (KIP-700).
// v1 endpoint type: brokers (1) or controllers (2) · v2 fenced brokers, of which we have none to tell.
// Errors: MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE.
var describeCluster = Entry{
	Key: kmsg.DescribeCluster, ZooKeeper: v(0, 1), Kafka4: v(0, 2),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribe), Cost: 8, Runs: onProcessor,
	Serve: serveDescribeCluster,
}

const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func serveDescribeCluster(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeClusterRequest)
	response := kmsg.NewPtrDescribeClusterResponse()
	response.ClusterAuthorizedOperations = notAsked
	response.EndpointType = endpointBrokers
	if r.Version >= 1 && r.EndpointType != endpointBrokers {
		err := errcode.New(kerr.UnsupportedEndpointType, "this endpoint type does not exist; 1 is brokers, 2 controllers")
		if r.EndpointType == endpointControllers {
			err = errcode.New(kerr.MismatchedEndpointType, "this address is a broker's, not a controller's")
		}
		response.ErrorCode, response.ErrorMessage = c.Code(err), errcode.Message(err)
		c.Reply(response)
		return
	}
	image := s.Metadata.Image()
	response.ClusterID = s.ClusterID
	response.ControllerID = image.Controller
	if r.IncludeClusterAuthorizedOperations {
		response.ClusterAuthorizedOperations = allOperations(kmsg.ACLResourceTypeCluster)
	}
	for _, b := range image.Brokers() {
		if e, ok := s.Endpoint(b, c.Listener(), c.Local()); ok {
			response.Brokers = append(response.Brokers, kmsg.DescribeClusterResponseBroker{
				NodeID: b.ID, Host: e.Host, Port: e.Port, Rack: b.Rack,
			})
		}
	}
	c.Reply(response)
}
