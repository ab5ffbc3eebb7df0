package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeUserScramCredentials tells which users have credentials in the metadata store, and how strong these are (KIP-554):
// kafka-configs asks it whenever it describes users. Brokers of another kind may have stored some; this one makes none.
// Errors per user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE.
var describeUserSCRAM = Entry{
	Key: kmsg.DescribeUserSCRAMCredentials, ZooKeeper: v(0, 0), Kafka4: v(0, 0),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribe), Cost: 16, Runs: onHandler,
	Serve: serveDescribeUserSCRAM,
}

// scramMechanisms are the numbers of the mechanisms, by their keys in a user's configuration.
var scramMechanisms = map[string]int8{"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}

func serveDescribeUserSCRAM(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	stored := func(user string) map[string]string {
		return s.Controller.Configs(kindUsers, controller.EntityName(user))
	}
	response := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	if r.Users == nil {
		for _, name := range s.Controller.ConfigNames(kindUsers) {
			if _, _, both := controller.SplitEntityNames(name); both || name == controller.Default {
				continue
			}
			user := controller.PlainName(name)
			if infos := scramInfos(stored(user)); len(infos) > 0 {
				response.Results = append(response.Results, kmsg.DescribeUserSCRAMCredentialsResponseResult{User: user, CredentialInfos: infos})
			}
		}
		c.Reply(response)
		return
	}
	counts := map[string]int{}
	for _, u := range r.Users {
		counts[u.Name]++
	}
	for _, u := range r.Users {
		if counts[u.Name] == 0 {
			continue // told already
		}
		result := kmsg.DescribeUserSCRAMCredentialsResponseResult{User: u.Name, CredentialInfos: scramInfos(stored(u.Name))}
		var err error
		switch {
		case counts[u.Name] > 1 && (s.Embedded || u.Name != ""):
			err = errcode.Newf(kerr.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: %s", u.Name)
		case len(result.CredentialInfos) == 0:
			err = errcode.Newf(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: %s", u.Name)
		}
		counts[u.Name] = 0
		result.ErrorCode, result.ErrorMessage = c.Code(err), errcode.Message(err)
		response.Results = append(response.Results, result)
	}
	c.Reply(response)
}

// scramInfos reads what is stored of a user: "salt=…,stored_key=…,server_key=…,iterations=4096" by mechanism.
func scramInfos(values map[string]string) (infos []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo) {
	for _, mechanism := range slices.Sorted(maps.Keys(scramMechanisms)) {
		for _, part := range strings.Split(values[mechanism], ",") {
			if n, ok := strings.CutPrefix(part, "iterations="); ok {
				if iterations, err := strconv.ParseInt(n, 10, 32); err == nil {
					infos = append(infos, kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{
						Mechanism: scramMechanisms[mechanism], Iterations: int32(iterations),
					})
				}
			}
		}
	}
	return infos
}
