package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// Usage marks an error as one of the command line.
func Usage(err error) error { return usageError{err} }

// Usagef makes such an error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Group makes cmd one that only holds others: alone it shows its help.
func Group(cmd *cobra.Command) *cobra.Command {
	return GroupOr(cmd, func(cmd *cobra.Command) error { return cmd.Help() })
}

// GroupOr makes cmd one that holds others, and does something when it is alone.
func GroupOr(cmd *cobra.Command, alone func(*cobra.Command) error) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return alone(cmd)
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("%s; see %s --help", text, cmd.CommandPath())
}

// HelpCommand returns "help", which does not show the help of another command than the one that was asked for.
func HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]...",
		Short:   "Help about any command",
		Example: `  gregor help topic create`,
		RunE: func(help *cobra.Command, args []string) error {
			cmd, rest, err := help.Root().Find(args)
			if err != nil {
				return Usage(err)
			}
			if len(rest) > 0 {
				return unknownCommand(cmd, rest[0])
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// MarkUsage makes errors about arguments of cmd, and of all below it, usage errors.
func MarkUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				if errors.As(err, &usageError{}) {
					return err
				}
				return wrongArguments(cmd, args, check)
			}
			return nil
		}
	}
	for _, below := range cmd.Commands() {
		MarkUsage(below)
	}
}

func wrongArguments(cmd *cobra.Command, args []string, check cobra.PositionalArgs) error {
	wrong := "an argument is missing"
	if more := append(slices.Clone(args), ""); check(cmd, more) != nil && len(args) > 0 {
		wrong = fmt.Sprintf("%s does not take %q", cmd.CommandPath(), strings.Join(args, " "))
	}
	return Usagef("%s; usage: %s; see %s --help", wrong, cmd.UseLine(), cmd.CommandPath())
}

// flagForms say what the values of a type of flag look like, in words that go after "want".
var flagForms = map[string]string{
	"int": "a whole number", "int16": "a whole number up to 32767", "int32": "a whole number", "int64": "a whole number",
	"int32Slice": "whole numbers, as in 1,2,3", "int64Slice": "whole numbers, as in 1,2,3", "float64": "a number",
	"bool": "true or false", "duration": "a time with its unit, as in 500ms, 10s or 5m",
}

// FlagError says in words what is wrong with the flags of a command.
func FlagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if form, ok := flagForms[invalid.GetFlag().Value.Type()]; ok {
			err = fmt.Errorf("--%s %s: want %s", invalid.GetFlag().Name, invalid.GetValue(), form)
		}
	}
	return Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// SomeOf refuses values of a flag that are none of those allowed, and writes each as it stands there: case does not count.
func SomeOf(flag string, values, allowed []string) error {
	for i, v := range values {
		at := slices.IndexFunc(allowed, func(a string) bool { return strings.EqualFold(a, v) })
		if at < 0 {
			last := len(allowed) - 1
			return Usagef("--%s %s: want %s or %s", flag, v, strings.Join(allowed[:last], ", "), allowed[last])
		}
		values[i] = allowed[at]
	}
	return nil
}
