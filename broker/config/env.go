package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What the two common kinds of container images write before a key.
const (
	envPrefix    = "KAFKA_"
	envCfgPrefix = "KAFKA_CFG_"
)

// envKey turns the rest of a variable's name into a key: "_" is a dot, "__" an underscore, "___" a dash.
var envKey = strings.NewReplacer("___", "-", "__", "_", "_", ".")

// imageVariables are what the images put beside the configuration.
var imageVariables = map[string]bool{
	"KAFKA_HEAP_OPTS": true, "KAFKA_OPTS": true, "KAFKA_JMX_OPTS": true, "KAFKA_JVM_PERFORMANCE_OPTS": true,
	"KAFKA_GC_LOG_OPTS": true, "KAFKA_LOG4J_OPTS": true, "KAFKA_LOG4J_ROOT_LOGLEVEL": true, "KAFKA_LOG4J_LOGGERS": true,
	"KAFKA_TOOLS_LOG4J_LOGLEVEL": true, "KAFKA_JMX_HOSTNAME": true, "KAFKA_JMX_PORT": true, "KAFKA_VERSION": true,
	"KAFKA_HOME": true, "KAFKA_DEBUG": true, "KAFKA_CLUSTER_ID": true, "KAFKA_KRAFT_CLUSTER_ID": true,
	"KAFKA_ENABLE_KRAFT": true, "KAFKA_BASE_DIR": true, "KAFKA_VOLUME_DIR": true, "KAFKA_DATA_DIR": true,
	"KAFKA_CONF_DIR": true, "KAFKA_CONF_FILE": true, "KAFKA_MOUNTED_CONF_DIR": true, "KAFKA_CERTS_DIR": true,
	"KAFKA_INITSCRIPTS_DIR": true, "KAFKA_LOG_DIR_BASE": true, "KAFKA_DAEMON_USER": true, "KAFKA_DAEMON_GROUP": true,
	"KAFKA_INTER_BROKER_USER": true, "KAFKA_INTER_BROKER_PASSWORD": true, "KAFKA_CLIENT_USERS": true,
	"KAFKA_CLIENT_PASSWORDS": true, "KAFKA_CREATE_TOPICS": true, "KAFKA_URL": true, "KAFKA_USER": true,
	"KAFKA_SKIP_KRAFT_STORAGE_INIT": true, "KAFKA_EXTRA_FLAGS": true,
}

// serviceVariable matches what Kubernetes and Docker links set for a service whose name begins with "kafka".
var serviceVariable = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?$`)

// foreign says that a variable is not meant as configuration, whatever its name resembles.
func foreign(name, value string) bool {
	return imageVariables[name] || serviceVariable.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && (strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://"))
}

// readEnv returns the settings that the environment makes, and notices about variables that look like settings but are
// not. A KAFKA_CFG_ variable counts before a KAFKA_ one.
func readEnv(env []string) ([]setting, []Notice) {
	var plain, cfg []setting
	var notices []Notice
	var ignored []string
	for _, entry := range sorted(env) {
		name, value, _ := strings.Cut(entry, "=")
		rest, isCfg := strings.CutPrefix(name, envCfgPrefix)
		if !isCfg {
			var ours bool
			if rest, ours = strings.CutPrefix(name, envPrefix); !ours || foreign(name, value) {
				continue
			}
		}
		key := envKey.Replace(strings.ToLower(rest))
		switch _, known := resolve(key); {
		case known && isCfg:
			cfg = append(cfg, setting{key, value, name})
		case known:
			plain = append(plain, setting{key, value, name})
		default:
			if hint := nearest(key); isCfg || hint.close() {
				notices = append(notices, unknownKey(key, name))
			} else {
				ignored = append(ignored, name)
			}
		}
	}
	if len(ignored) > 0 {
		notices = append(notices, Notice{Key: ignored[0],
			Text: "environment variables that name no key are ignored: " + strings.Join(ignored, ", ")})
	}
	return append(plain, cfg...), notices
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// clusterIDVariables name a new cluster's id: the official image's variable, then those of others.
var clusterIDVariables = []string{"CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID"}

var clusterIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// clusterIDFrom returns the id for a new cluster that the environment names, or "", and notices about those that are none.
func clusterIDFrom(env []string) (string, []Notice) {
	var notices []Notice
	for _, name := range clusterIDVariables {
		for _, entry := range env {
			switch value, ok := strings.CutPrefix(entry, name+"="); {
			case !ok || value == "":
			case clusterIDForm.MatchString(value):
				return value, notices
			default:
				notices = append(notices, Notice{Key: name, Warn: true,
					Text: fmt.Sprintf("%s=%s is no cluster id and is not used; one has 22 letters, digits, - and _", name, value)})
			}
		}
	}
	return "", notices
}
