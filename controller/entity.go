package controller

import "github.com/gregor-broker/gregor/controller/znode"

// Default stands in the names of configurations for all others of a kind.
const Default = znode.Default

// EntityName is the name that AlterConfigs, Configs and Observer have for a user, and for a client id: encoded, so that no name
// can be taken for Default or for two names.
func EntityName(name string) string { return znode.Sanitize(name) }

// EntityNames is the name for a client id of a user; both are as from EntityName, or Default.
func EntityNames(user, client string) string { return znode.JoinNames(user, client) }

// SplitEntityNames is the inverse of EntityNames; both is false for the name of a user alone.
func SplitEntityNames(name string) (user, client string, both bool) { return znode.SplitNames(name) }

// PlainName is the inverse of EntityName.
func PlainName(encoded string) string {
	if name, err := znode.Desanitize(encoded); err == nil {
		return name
	}
	return encoded // the store gives no such names out
}
