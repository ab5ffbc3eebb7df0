package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs beside the test, its output in a file.
type process struct {
	cmd     *exec.Cmd
	logPath string
	done    chan struct{} // closed when it has ended
}

// startProcess starts a program whose standard output and error are appended to the file logPath.
func startProcess(logPath string, env []string, name string, args ...string) (*process, error) {
	file, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, logPath: logPath, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state tells
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exitCode is valid once the process has ended; -1 when a signal ended it.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }

// log returns what it has printed so far.
func (p *process) log() []byte {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return fmt.Appendf(nil, "(no log: %v)", err)
	}
	return text
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stop ends the process with SIGTERM and reports whether it ended within the limit; if not, it is killed.
func (p *process) stop(limit time.Duration) bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		p.kill()
		return false
	}
}

// pause stops the process (SIGSTOP) and returns once it stands still, where the system tells: the signal is on its way until the kernel
// has next scheduled one of its threads, and the others run on meanwhile, which on a busy machine is long enough to answer a request.
func (p *process) pause() {
	if p.ended() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	_ = poll(stopLimit, func() error {
		if !p.ended() && runs(p.pid()) {
			return errors.New("it runs")
		}
		return nil
	})
}

func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// runs reports whether a thread of a process is not stopped. Where there is no /proc nobody knows.
func runs(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		name := bytes.LastIndexByte(text, ')') // which may have anything in it
		if state := text[name+1:]; !bytes.HasPrefix(state, []byte(" T")) && !bytes.HasPrefix(state, []byte(" Z")) {
			return true
		}
	}
	return false
}

// tail returns the last lines of a log, at most max bytes.
func tail(text []byte, max int) []byte {
	if len(text) <= max {
		return text
	}
	text = text[len(text)-max:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return text
}

// Eventually calls check again and again until it returns nil, and fails the test with its last error after the limit.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	if err := poll(limit, check); err != nil {
		t.Fatalf("not within %v: %v", limit, err)
	}
}

// poll calls check until it returns nil, or the limit has passed, and returns check's last error.
func poll(limit time.Duration, check func() error) error {
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return err
		}
	}
}

// Elapse lets time pass where a broker's own timer must run out and nothing shows that it has.
func Elapse(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
