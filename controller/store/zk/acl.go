package zk

import (
	"errors"
	"strings"

	zoo "github.com/go-zookeeper/zk"
)

var (
	errNoAuth     = errors.New("ZooKeeper's access control list does not allow it to this broker")
	errInvalidACL = errors.New("ZooKeeper does not take the access control list: with zookeeper.set.acl the broker must show a certificate " +
		"(zookeeper.ssl.keystore.location) and the servers must have authProvider.x509")
)

// secretRoots are what nobody but the brokers may read: password hashes, encrypted settings, delegation tokens.
var secretRoots = []string{"/config/users", "/config/brokers", "/delegation_token/tokens"}

// acl returns the access control list of a new node, by its path without the chroot. With zookeeper.set.acl its creator (by the
// connection's certificate) may do everything and everybody may read, except what is secret; old consumers of other
// principals write below /consumers, which is open. After Kafka's ZkData.defaultAcls.
func acl(set bool, path string) []zoo.ACL {
	if !set || path == "/consumers" {
		return zoo.WorldACL(zoo.PermAll)
	}
	creator := zoo.AuthACL(zoo.PermAll)
	for _, root := range secretRoots {
		if strings.HasPrefix(path, root) {
			return creator
		}
	}
	return append(creator, zoo.WorldACL(zoo.PermRead)...)
}
