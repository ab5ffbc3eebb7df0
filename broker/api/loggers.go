package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/loglevel"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The loggers of this broker are a resource whose keys are their names and whose values are their levels (KIP-412). They
// are not stored: after a restart the levels are as at the first start.

var (
	errNoBrokerNamed      = errcode.New(kerr.InvalidRequest, "Broker id must not be empty")
	errLoggersIncremental = errcode.New(kerr.InvalidRequest, "AlterConfigs does not change loggers; IncrementalAlterConfigs does")
	errRootLogger         = errcode.Newf(kerr.InvalidRequest, "Removing the log level of the %s logger is not allowed", loglevel.Root)
)

func (s *Services) describeLoggers(r kmsg.DescribeConfigsRequestResource) ([]config.Row, error) {
	if r.ResourceName == "" {
		return nil, errNoBrokerNamed
	}
	if err := s.ownID(r.ResourceName); err != nil {
		return nil, err
	}
	all := s.Levels.All()
	var rows []config.Row
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if level := all[name]; r.ConfigNames == nil || slices.Contains(r.ConfigNames, name) {
			rows = append(rows, config.Row{Name: name, Value: &level, Source: config.SourceBrokerLogger, Type: config.Unknown})
		}
	}
	return rows, nil
}

// alterLoggers sets the levels that change returns.
func (s *Services) alterLoggers(name string, validateOnly bool, change change) error {
	if err := s.ownID(name); err != nil {
		return err
	}
	levels, err := change(nil)
	if err != nil || validateOnly {
		return err
	}
	s.Levels.Set(levels)
	return nil
}

// loggerLevels checks changes of levels; "" takes a level back. After ConfigAdminManager.validateLogLevelConfigs.
func (s *Services) loggerLevels(changes []config.Change) (map[string]string, error) {
	levels := map[string]string{}
	for _, c := range changes {
		_, twice := levels[c.Name]
		switch {
		case twice:
			return nil, errcode.New(kerr.InvalidRequest, "Error due to duplicate config keys")
		case c.Op == config.Append, c.Op == config.Subtract:
			op := map[config.Op]string{config.Append: "APPEND", config.Subtract: "SUBTRACT"}[c.Op]
			return nil, errcode.Newf(kerr.InvalidRequest, "%s operation is not allowed for the BROKER_LOGGER resource", op)
		case c.Op != config.Set && c.Op != config.Delete:
			return nil, config.ErrUnknownOp(c)
		case !s.Levels.Known(c.Name):
			return nil, errcode.Newf(kerr.InvalidConfig, "Logger %s does not exist!", c.Name)
		case c.Op == config.Delete && c.Name == loglevel.Root:
			return nil, errRootLogger
		case c.Op == config.Delete:
			levels[c.Name] = ""
		case c.Value == nil:
			return nil, errcode.Newf(kerr.InvalidRequest, "Null value not supported for : %s", c.Name)
		case !slices.Contains(loglevel.Words, *c.Value):
			return nil, errcode.Newf(kerr.InvalidConfig, "Cannot set the log level of %s to %s as it is not a supported log level. "+
				"Valid log levels are %s", c.Name, *c.Value, strings.Join(loglevel.Words, ", "))
		default:
			levels[c.Name] = *c.Value
		}
	}
	return levels, nil
}
