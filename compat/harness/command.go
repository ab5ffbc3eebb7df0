package harness

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// Command runs a program with a standard input and a limit, and returns what it printed. The test fails only when it
// cannot be started or runs too long: how it ended is for the caller to judge.
func Command(t testing.TB, limit time.Duration, stdin string, env []string, name string, args ...string) Output {
	t.Helper()
	return command(t, limit, "", stdin, env, name, args...)
}

// CommandIn is Command in a folder, without standard input.
func CommandIn(t testing.TB, limit time.Duration, dir string, env []string, name string, args ...string) Output {
	t.Helper()
	return command(t, limit, dir, "", env, name, args...)
}

func command(t testing.TB, limit time.Duration, dir, stdin string, env []string, name string, args ...string) Output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Stdin = bytes.NewReader([]byte(stdin))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = dieWithParent()
	err := cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%s %v did not end within %v:\n%s", name, args, limit, out)
	case errors.As(err, &exit):
		out.Code = exit.ExitCode()
	case err != nil:
		t.Fatalf("run %s %v: %v", name, args, err)
	}
	return out
}
